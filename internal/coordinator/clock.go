// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// offset is by how much a worker's wall clock is ahead of ours, and the round
// trip that it was measured by: the truth is within half of that.
type offset struct {
	ahead     time.Duration
	roundTrip time.Duration
}

// clockRounds is how often clocks are compared; the quickest round trip is the
// least disturbed one.
const clockRounds = 8

// measureOffset compares clocks as NTP does: the worker read its clock about half way.
func measureOffset(ctx context.Context, client workerpb.WorkerClient) (offset, error) {
	var best offset
	for i := range clockRounds {
		before := time.Now()
		resp, err := client.Hello(ctx, &workerpb.HelloRequest{})
		if err != nil {
			return offset{}, err
		}
		trip := time.Since(before)
		if i == 0 || trip < best.roundTrip {
			middle := before.Add(trip / 2)
			best = offset{time.Duration(resp.GetNowUnixNanos() - middle.UnixNano()), trip}
		}
	}
	return best, nil
}
