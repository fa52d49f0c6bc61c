// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
)

// Cores says how many cores at a time the runs of a process use (GOMAXPROCS): all,
// or one while that is enough.
//
// Whenever one goroutine hands something to another, the Go runtime wakes a thread for it on a core that
// is idle. A busy client gains from that. At a slow pace the thread finds nothing that
// the first one has not done by itself meanwhile: a read at 5,000/s costs two fifths less CPU on one core,
// and its measured time is shorter by a third (docs/performance.md).
//
// Cores is shared by the workers of a process, and does nothing if it is nil.
type Cores struct {
	giveBack func() // all

	mu    sync.Mutex
	one   bool                // is in use
	needs map[*engine]float64 // of the process in the next seconds, in cores, as its runs see it
}

// oneIsEnough is how many cores the process may need for one to be enough. What is
// left is for bursts, and one core is left again where more than that is used: one then does with
// 0.5 what two did with 0.65.
const oneIsEnough = 0.65

// NewCores returns the cores of this process. There must be no other. All is what GOMAXPROCS
// in the environment says, or else the Go runtime's own number, which follows a container's limit.
func NewCores() *Cores {
	c := &Cores{giveBack: runtime.SetDefaultGOMAXPROCS, needs: make(map[*engine]float64)}
	if n, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil && n > 0 {
		c.giveBack = func() { runtime.GOMAXPROCS(n) }
	}
	return c
}

// expect notes what a run expects the process to need, in cores, until it is asked again.
func (c *Cores) expect(e *engine, need float64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.needs[e] = need
	c.deal()
}

// leave forgets a run.
func (c *Cores) leave(e *engine) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.needs, e)
	c.deal()
}

// deal sets the number of cores. Those of a process without a run are all.
func (c *Cores) deal() {
	enough := len(c.needs) > 0
	for _, need := range c.needs {
		enough = enough && need <= oneIsEnough
	}
	switch {
	case enough == c.one: // to change it stops the world
	case enough:
		runtime.GOMAXPROCS(1)
	default:
		c.giveBack()
	}
	c.one = enough
}

// need predicts how many cores the process will need in the next two seconds, from
// what it used in an interval. Unpaced, there is no saying.
func (e *engine) need(iv *measure.Interval, used time.Duration) float64 {
	if !e.spec.Paced() {
		return math.Inf(1)
	}
	took := iv.End - iv.Start
	next := max(e.targetIn(iv.End, iv.End+time.Second), e.targetIn(iv.End+time.Second, iv.End+2*time.Second))
	var started float64
	for k := range iv.Window.Started {
		started += float64(iv.Window.Started[k] + iv.Warmup.Started[k])
	}
	// At a few operations a second their number says little, and next to nothing is used.
	const few = 100
	growth := (next + few) / (started/took.Seconds() + few)
	return used.Seconds() / took.Seconds() * max(1, growth)
}
