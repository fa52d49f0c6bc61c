// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(ctx context.Context, c cluster.Config, timeout time.Duration) (store.Driver, error) {
	d, err := stream.Open(ctx, c, stream.Config{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func TestDriver(t *testing.T) { storetest.Run(t, open) }
