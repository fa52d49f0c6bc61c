// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Contexts that client-go makes below that of a caller end with it and know its trace.
func TestCallerContext(t *testing.T) {
	t.Parallel()
	caller := NewCaller(nil)
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := caller.Context(parent)
	below, stop := context.WithCancel(ctx)
	defer stop()
	if got := below.Value(traceKey{}); got != any(&caller.trace) {
		t.Errorf("the trace of a context below is %v", got)
	}
	if got := ctx.Value("other"); got != nil {
		t.Errorf("there is a value %v", got)
	}
	if err := ctx.Err(); err != nil {
		t.Errorf("it has ended too early: %v", err)
	}
	cancel()
	for _, c := range []context.Context{ctx, below} {
		select {
		case <-c.Done():
		case <-time.After(time.Minute):
			t.Fatal("it has not ended with its parent")
		}
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("it has ended with %v", c.Err())
		}
	}
}
