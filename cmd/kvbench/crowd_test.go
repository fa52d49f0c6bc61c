// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// crowdedShare is how much processor time others must have taken of each second for a machine to be crowded: for each second for
// which a thread waits for a processor, at least one second's worth of one is used by somebody else, and a report lets threads
// that waited for a tenth of the time decide something.
const crowdedShare = 0.1

// crowd tells how much of the machine was used by processes that have no part in a situation, by what the kernel says of
// the machine and of the processes that have, and not by what reports say.
type crowd struct {
	t       *testing.T
	began   time.Time
	busy    float64 // of the machine, in seconds of processor time, as of the processes below
	own     float64 // of this process, with the playground in it
	members []member
}

// member is a process with a part in the situation.
type member struct {
	process *process // nil: a process that is nobody's but ours
	pid     int
	before  float64
}

func watchCrowd(t *testing.T, workers []*process, loops []int) *crowd {
	c := &crowd{t: t, began: time.Now()}
	for _, w := range workers {
		c.add(w)
	}
	for _, pid := range loops {
		c.members = append(c.members, member{pid: pid, before: c.of(pid)})
	}
	c.own, c.busy = c.self(), c.machine()
	return c
}

// add takes in a process, with what it uses from now on.
func (c *crowd) add(p *process) {
	c.members = append(c.members, member{process: p, pid: p.cmd.Process.Pid, before: used(c, p)})
}

// others returns the processor time, for each second, that all others have taken, with what the hypervisor gave to other machines.
func (c *crowd) others() float64 {
	took := c.machine() - c.busy - (c.self() - c.own)
	for _, m := range c.members {
		now := 0.0
		if m.process != nil {
			now = used(c, m.process)
		} else {
			now = c.of(m.pid)
		}
		took -= max(0, now-m.before)
	}
	return took / time.Since(c.began).Seconds()
}

// used returns a process's time, also once it has ended.
func used(c *crowd, p *process) float64 {
	select {
	case <-p.done:
		return (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
	default:
		return c.of(p.cmd.Process.Pid)
	}
}

// of returns the time of a process that runs; 0 if it has just ended.
func (c *crowd) of(pid int) float64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	return cpuTime(p)
}

func (c *crowd) self() float64 {
	c.t.Helper()
	p, err := procfs.Self()
	if err != nil {
		c.t.Fatal(err)
	}
	return cpuTime(p)
}

func cpuTime(p procfs.Proc) float64 {
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.CPUTime()
}

// machine returns the time that all processors were not idle for.
func (c *crowd) machine() float64 {
	c.t.Helper()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		c.t.Fatal(err)
	}
	stat, err := fs.Stat()
	if err != nil {
		c.t.Fatal(err)
	}
	a := stat.CPUTotal
	return a.User + a.Nice + a.System + a.IRQ + a.SoftIRQ + a.Steal
}
