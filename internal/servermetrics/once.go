// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"context"
	"sync"
	"time"
)

// Read reads all stores' pages once, in the order of the servers. Each may take so long.
func (w *Watcher) Read(ctx context.Context, timeout time.Duration) []Sample {
	samples := make([]Sample, len(w.servers))
	var stores sync.WaitGroup
	for i, s := range w.servers {
		stores.Go(func() { samples[i] = (&reader{Watcher: w, server: s}).read(ctx, timeout) })
	}
	stores.Wait()
	return samples
}
