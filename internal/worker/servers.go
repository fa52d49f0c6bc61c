// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/servermetrics"
	"github.com/kvbench/kvbench/internal/store"
)

// readServers makes this worker read the stores' own figures, from now on or from the start on.
func (e *engine) readServers() { e.asked.Do(func() { close(e.askServers) }) }

// watchServers reads the stores' own figures beside the load, once that is asked for. What cannot be
// read is noted as missing, and the run goes on.
func (e *engine) watchServers(journal *results.Journal, ended <-chan struct{}) {
	monitored, ok := e.driver.(store.Monitored)
	if !ok || e.spec.TiKV.ServerMetrics == 0 {
		return
	}
	select {
	case <-e.askServers:
	case <-ended:
		return
	}
	w := servermetrics.New(monitored.Servers(), &e.clock)
	defer w.Close()
	watch := servermetrics.Watch{Every: e.spec.TiKV.ServerMetrics, Ended: ended, Stopped: e.stopped, Whole: e.spec.CountsWhole()}
	w.Run(watch, func(s servermetrics.Sample) {
		err := journal.WriteServer(results.ServerSample{S: s.At.Seconds(), Store: s.Store, PD: s.PD, Figures: s.Figures, Missing: s.Missing, Prompted: int64(s.Prompted)})
		if err != nil {
			e.fail(err)
		}
	})
}
