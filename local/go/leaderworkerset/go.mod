module specdecode.io/local/leaderworkerset

go 1.24.0

require sigs.k8s.io/lws v0.7.0 // indirect
