// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

// Calls that are few do not yield for one another, but now and then to find out whether they
// still are; those of which some share a message do.
func TestYielding(t *testing.T) {
	t.Parallel()
	var y yielding
	count := func(messages, commands int) (n int) {
		for range messages {
			if y.pay(commands) {
				n++
			}
		}
		return n
	}
	if n := count(330, 1); n != 10 {
		t.Errorf("330 messages of one command: %d yields, want one in 33", n)
	}
	if n := count(100, 2); n != 100 {
		t.Errorf("100 shared messages: %d yields", n)
	}
	for range 10 {
		if n := count(1, 9) + count(4, 1); n != 5 {
			t.Errorf("a shared message among four: %d yields, want all 5", n)
		}
	}
	if n := count(30, 1); n != 0 {
		t.Errorf("30 messages of one command after many shared ones: %d yields", n)
	}
	y.off.Store(true)
	if n := count(100, 2) + count(100, 1); n != 0 {
		t.Errorf("%d yields, though they are off", n)
	}
}
