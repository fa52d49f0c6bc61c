// SPDX-License-Identifier: Apache-2.0

// Package store says what a database driver must do: accept a call, and hand
// back its completion. A driver owns whatever goroutines, connections and
// queues that takes; a lane sees one [Session], submits calls, and waits for
// completions and for the next moment at which it has something to start.
package store

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
)

// Verb is what a call asks of the database.
type Verb uint8

// The verbs. A call with more than one key is sent in the batch form of its verb.
const (
	Get Verb = iota
	Put
	Delete
	Scan           // from Keys[0] (included), at most Limit pairs, up to EndKey
	CompareAndSwap // one key
	Unlock         // gives up what a Get for update has locked
)

func (v Verb) String() string {
	return [...]string{"Get", "Put", "Delete", "Scan", "CompareAndSwap", "Unlock"}[v]
}

// Call is one client call: the request, and after its completion the answer.
// A lane owns a fixed set of calls, one per virtual thread, and reuses them; a
// driver owns a call from Submit until it comes back from Wait.
type Call struct {
	Verb   Verb
	Keys   [][]byte // at least one
	Values [][]byte // Put: one per key. CompareAndSwap: the new value

	EndKey  []byte // Scan: excluded end; empty is the end of the key space
	Limit   int    // Scan: at most so many pairs, at least 1
	Reverse bool   // Scan: descending from Keys[0] (excluded) down to EndKey (included)
	KeyOnly bool   // Scan: leave the values empty
	TTL     uint64 // Put: seconds to live; 0 is forever. CompareAndSwap: 0, since client-go sends none

	Previous     []byte // CompareAndSwap: the value that must be there
	MustNotExist bool   // CompareAndSwap: there must be none; Previous is ignored

	// ForUpdate joins a Get with the Put that follows in the same call: a driver with transactions makes one of both.
	ForUpdate bool

	// Relaxed lets a Get or a Scan see less than all that is committed, as far as the driver's options say so.
	Relaxed bool

	// Delay is how long after its start the driver waits before it makes the call. Those without transactions, which nobody makes again, do not wait.
	Delay time.Duration

	// Cost is what the operation that the call belongs to has cost so far. A driver with transactions adds to it; nil: nobody asks.
	Cost *Cost

	// Start is set by the lane when it submits the call.
	Start time.Duration

	// The answer. The driver sets all of these before the call comes back; the
	// slices are valid until the call is submitted again.

	// Found holds, for Get, one value per key, nil where the key is not there
	// (an empty value is not nil); for Scan, the values found; for
	// CompareAndSwap, the previous value (one element).
	Found     [][]byte
	FoundKeys [][]byte      // Scan: the keys found, in order
	Swapped   bool          // CompareAndSwap
	Snapshot  uint64        // Get, Scan: the timestamp as of which they were answered; 0: there is none, or the driver does not know
	Locked    bool          // Get for update: the keys are locked until a Put for update or an Unlock follows
	RPCs      int32         // requests sent to the database for this call, retries included where the driver sees them
	End       time.Duration // when the answer arrived, on the session's clock
	Class     Class         // OK, or what kind of failure
	Err       error         // its text; nil exactly when Class is OK

	// Owner is for the lane: it finds its virtual thread again. Drivers leave it alone.
	Owner int
	// Slot is for the driver: its own state of a call in flight.
	Slot any
}

// Class is the kind of failure of a call, the same for every driver.
type Class uint8

// The classes, from the client's point of view.
const (
	OK                Class = iota
	Timeout                 // the per-call timeout passed
	RegionUnavailable       // region errors until the retry budget was spent
	ServerBusy              // ServerIsBusy or disk full until the budget was spent
	NoConnection            // no connection to a store, or it broke
	PDUnavailable           // the placement driver did not answer
	RawError                // the store answered with an error text
	Conflict                // another transaction has written a key meanwhile
	Deadlock                // transactions waited for each other's locks
	RolledBack              // others took the transaction's client for dead, and undid it
	LockTimeout             // another transaction held a lock for too long
	Undetermined            // the answer to a commit was lost: it may have happened, or not
	Cancelled               // the run ended, or was stopped, before the answer came
	Other
	Classes = int(Other) + 1
)

// String returns the class's name as it stands in results.
func (c Class) String() string {
	return [...]string{
		"ok", "timeout", "region_unavailable", "server_busy", "no_connection",
		"pd_unavailable", "raw_error",
		"write_conflict", "deadlock", "rolled_back", "lock_timeout", "undetermined", "cancelled", "other",
	}[c]
}

// Lost tells whether a transaction has failed because of others, without any effect, and may well succeed when it is made again.
func (c Class) Lost() bool { return c == Conflict || c == Deadlock || c == RolledBack }

// Answered tells whether the database has decided, and said so.
func (c Class) Answered() bool { return c == OK || c == RawError || c == LockTimeout || c.Lost() }

// Driver is a connection to one database, shared by the lanes of a worker.
type Driver interface {
	// Open makes the session of one lane, for at most threads calls in flight.
	Open(lane, threads int, clk clock.Clock) (Session, error)
	// Close closes what the sessions shared. All sessions must be closed first.
	Close() error
}

// What follows a driver may have besides. Who uses it asks for it by assertion.

// TrafficCounter is a driver that counts what it sends.
type TrafficCounter interface {
	Driver
	// Traffic returns what was sent since the driver was opened, by store. Any goroutine may call it.
	Traffic() []Traffic
}

// Described is a driver that can say which cluster it is connected to.
type Described interface {
	Driver
	Cluster() Cluster
}

// Connected is a driver that can say how many connections its calls share.
type Connected interface {
	Driver
	// ConnectionsPerStore returns how many connections the sessions that are open have to each
	// store that they talk to.
	ConnectionsPerStore() int
}

// Monitored is a driver that knows where the stores tell their own figures.
type Monitored interface {
	Driver
	// Servers returns where they can be asked.
	Servers() Servers
}

// Servers are the addresses at which a cluster's members tell their own figures over HTTP.
type Servers struct {
	Stores []Server
	PD     string      // host:port of PD's leader; "": there is none
	TLS    *tls.Config // nil: without
}

// Server is one store's addresses, host:port.
type Server struct {
	Store  string // as Traffic has it
	Status string // where its metrics are, as it says itself, which may name no host; "" if that is not known
}

// Cluster is what a database says about itself.
type Cluster struct {
	ID      uint64
	Stores  []string          // addresses
	Details map[string]string // versions
}

// Session is one lane's access to the database. Except for Wake, its methods are
// called from the lane only.
type Session interface {
	// Submit takes a call. It never blocks; the call may be held back until Wait
	// so that several share a message.
	Submit(c *Call)
	// Wait sends what Submit held back, and returns as soon as a call has
	// completed, or it is until, or Wake was called. With until in the past
	// it returns at once with what has completed. The slice is valid until the next Wait.
	Wait(until time.Duration) []*Call
	// Wake makes the current Wait, or else the next, return early. Any goroutine may call it.
	Wake()
	// Cancel gives up every call in flight: they come back from Wait with class
	// Cancelled (or with their answer, if that is faster).
	Cancel()
	// Close frees the session. No call may be in flight.
	Close() error
}

// Runner is a session whose lane need not wait: the goroutines in which calls complete take its
// turns, so that none is woken for that.
type Runner interface {
	Session
	// Run calls turn with what has completed, which may be nothing: at once, then whenever a call has
	// completed, it is until, or Wake was called. It returns when turn has returned false. Turns
	// are taken by any goroutine, one at a time and each after the one before. A turn that panics is the last,
	// and Run panics with a [Panic].
	Run(turn func(completed []*Call) (until time.Duration, more bool))
}

// Panic is a panic that was caught in another goroutine.
type Panic struct {
	Value any
	Stack []byte // of that goroutine
}

// Error returns what was panicked with.
func (p Panic) Error() string { return fmt.Sprint(p.Value) }

// Forever is an until that never comes.
const Forever = time.Duration(1<<63 - 1)
