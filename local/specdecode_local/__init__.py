"""A real Kubernetes on one machine, without a container engine: built from Go modules, run as plain processes."""
