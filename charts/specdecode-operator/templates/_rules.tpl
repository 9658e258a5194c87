{{/*
All that the operator may do, and why each verb is there. It reads no Secret, of ConfigMaps it asks for its own (by their label), and has no wildcard.
Children are known from lists and watches, so no `get` is needed for them; those without `delete` go with their owner.
A server-side apply of an object that isn't there needs `create` beside `patch`.
docs/security.md shows the same as a table; tests/charts/test_rbac.py compares the two.
*/}}
{{- define "specdecode-operator.rules" -}}
- apiGroups: [specdecode.io]
  resources: [specdecodedeployments]
  verbs:
    - get # each reconcile starts from a fresh copy of the object
    - list # all objects are planned anew when the operator starts
    - watch # a change of the object starts a reconcile
- apiGroups: [specdecode.io]
  resources: [specdecodedeployments/status]
  verbs:
    - update # conditions, counts and revisions are written here, never in spec
- apiGroups: [specdecode.io]
  resources: [specdecodedeployments/finalizers]
  verbs:
    - update # asked of whoever sets owner references, where OwnerReferencesPermissionEnforcement is on
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs:
    - list # the frozen revisions are what children are built from
    - watch # a frozen revision that somebody deleted is written again
    - create # a new revision is frozen before anything of it starts
    - patch # the second half of a server-side apply
    - delete # all but the last ten revisions are removed
- apiGroups: [""]
  resources: [configmaps]
  verbs:
    - list # plans and records of canaries: where a restarted operator goes on
    - watch # a plan that somebody deleted ends its run
    - create # a run's plan is written down before anything moves
    - patch # each look at a canary is added to its record
    - delete # all but the last five runs of an object are removed
- apiGroups: [apps]
  resources: [replicasets]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # a revision's pods come from its ReplicaSet
    - patch # slots move between revisions by its replicas
    - delete # a revision without slots leaves nothing behind
- apiGroups: [""]
  resources: [services]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # one for each revision and one for all pods of the object
    - patch # the second half of a server-side apply
    - delete # the Service of a revision without slots
- apiGroups: [""]
  resources: [pods]
  verbs:
    - list # which pods are ready, and why others are not
    - watch # a pod that becomes ready, or fails, moves the plan on
    - patch # which pod of a revision goes first; which has attested its files; one that differs leaves its Services
    - delete # one that was left behind by a ReplicaSet and a ControllerRevision that are both gone: nothing else can scale it; a stable one that a canary with baseline fresh restarts
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs:
    - list # whether a revision can be routed to
    - watch # a revision enters the route once its endpoints are ready
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # minAvailable holds against node drains too
    - patch # minAvailable changed in the object
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs:
    - list # which objects are routed, and which other object has claimed a hostname
    - watch # the gateway's answer (Accepted, ResolvedRefs) arrives in its status
    - create # spec.traffic asks for a route
    - patch # weights follow the slots of each revision
    - delete # spec.traffic was removed from the object
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # engines are scraped where the Prometheus Operator is installed
    - patch # spec.metrics.scrapeInterval changed in the object
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # a replica that spans nodes comes from one, where that API is installed
    - patch # slots move between revisions by its replicas
    - delete # a revision without slots leaves nothing behind
- apiGroups: [resource.nvidia.com]
  resources: [computedomains]
  verbs:
    - list # compared with what it should be before anything is written
    - watch # edits and deletions by hand are repaired
    - create # a replica that spans trays needs their NVLink domain, where that API is installed
    - patch # the second half of a server-side apply
    - delete # leaves with its revision
- apiGroups: [""]
  resources: [events]
  verbs:
    - create # what the operator did and why, in kubectl describe
    - patch # the same sentence again raises the count of the first
    - list # why a pod can't start, where only an event says so (a volume that can't be mounted)
{{- end }}
