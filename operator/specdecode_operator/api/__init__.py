"""What a `SpecDecodeDeployment` is: names, the typed view, profiles, conditions, and the CRD generated from them.

The lowest layer: nothing here knows of Kubernetes clients, kopf or a clock, and nothing above may be imported.
"""
