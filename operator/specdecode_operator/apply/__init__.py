"""The room that talks to the API server: client, watches, server-side apply, status writer, events.

Nothing here decides: `plan/` says what to do from what `store` holds, and `execute` does it, one action at a time. What
is written comes back into the store at once, so that the next plan never acts on a state from before its own writes.

The rights that this room needs, and why; the chart grants exactly these. "Child" stands for list, watch, create and
patch (a child is read by watching it):

| group, resource | verbs | why |
|---|---|---|
| specdecode.io specdecodedeployments | get list watch | fresh GET of each reconcile; kopf's watch; resync |
| specdecode.io specdecodedeployments/status | update | with the resourceVersion that was read |
| apps controllerrevisions | child, delete | frozen revisions; history beyond ten is deleted |
| apps replicasets | child, delete | one a revision; replicas; edits by hand are undone |
| "" services | child, delete | one a revision and one for all |
| "" pods | list watch patch | readiness, and why not; marks the slot that goes next, what attested, what doesn't |
| "" events | create patch list | sentences for people; a repeat patches its count; what keeps a mount |
| discovery.k8s.io endpointslices | list watch | a revision enters the route once its endpoints are ready |
| policy poddisruptionbudgets | child | minAvailable against node drains |
| gateway.networking.k8s.io httproutes | child, delete | weights; claims of hostnames by other objects |
| monitoring.coreos.com podmonitors | child | scraping, where that API exists |
| leaderworkerset.x-k8s.io leaderworkersets | child, delete | replicas that span nodes, where that API exists |
| resource.nvidia.com computedomains | child, delete | their NVLink domain, where that API exists |

`attest` asks the pods themselves, over HTTP on the engine's port; that needs no right, only the way to them.

In namespaced mode (SPECDECODE_WATCH_NAMESPACES) a Role with the same rules in each of those namespaces is enough;
nothing at cluster scope is read. No finalizer is set. Where the admission plugin OwnerReferencesPermissionEnforcement
is on, `update` on specdecodedeployments/finalizers is needed too, because children carry blockOwnerDeletion.
"""
