// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
)

// Do makes one call on a session that has nothing in flight, and waits for its
// end, at most timeout. The error says why there is no answer; the answer is in c.
func Do(s Session, c *Call, clk clock.Clock, timeout time.Duration) error {
	return DoAll(s, []*Call{c}, clk, timeout)
}

// DoAll makes all the calls at the same time, and waits for the end of each. The
// error is that of the first one that failed.
func DoAll(s Session, calls []*Call, clk clock.Clock, timeout time.Duration) error {
	until := clk.Now() + timeout
	for _, c := range calls {
		c.Start = clk.Now()
		s.Submit(c)
	}
	for done, cancelled := 0, false; done < len(calls); {
		done += len(s.Wait(until))
		if done < len(calls) && !cancelled && clk.Now() >= until {
			s.Cancel()
			cancelled, until = true, Forever
		}
	}
	for _, c := range calls {
		if c.Class == Cancelled {
			return fmt.Errorf("%s: no answer within %v", c.Verb, timeout)
		}
		if c.Err != nil {
			return fmt.Errorf("%s: %w", c.Verb, c.Err)
		}
	}
	return nil
}
