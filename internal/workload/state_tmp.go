package workload

type state struct{}
