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

const (
	mostTries = 10                     // of a call that a store answered with an error
	mostLost  = 100                    // of a transaction that was lost to others
	mostPause = 100 * time.Millisecond // before the next try; the first is a tenth of it
)

// Insist is Do for a call that has the same effect when it is made twice, as one that decides whether a run can start: it is
// made again if a store answered with an error, which drivers hand on at once, or others were in its way. A
// few errors of a database that is to be measured with them are then no reason not to. All tries together
// take timeout at most; the error is that of the last, with the number of tries.
func Insist(s Session, c *Call, clk clock.Clock, timeout time.Duration) error {
	until := clk.Now() + timeout
	for n := 1; ; n++ {
		err := Do(s, c, clk, until-clk.Now())
		again := c.Class == RawError && n < mostTries || c.Class.Lost() && n < mostLost
		if again && c.Class == RawError {
			next := clk.Now() + min(mostPause, mostPause/10<<(n-1))
			for again = next < until; again && clk.Now() < next; {
				s.Wait(next) // which has nothing in flight
			}
		}
		switch {
		case err == nil:
			return nil
		case !again && n > 1:
			return fmt.Errorf("%w (after %d tries)", err, n)
		case !again:
			return err
		}
	}
}
