module specdecode.io/local/monitors

go 1.26

require github.com/prometheus-operator/prometheus-operator v0.86.1 // indirect
