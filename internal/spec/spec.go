// SPDX-License-Identifier: Apache-2.0

// Package spec turns workload properties into a [Spec]: typed, checked and
// immutable. It is the one place that knows property names, their defaults and
// what they may be, so that a file written for YCSB or go-ycsb means here what it
// means there, or is refused with a line that says what to write instead.
//
// Properties come in layers ([Source]: files, environment, -p, flags); a later
// layer wins. [Spec.Properties] gives all effective values back as text, which is
// what travels to the workers and into results: parsing that text gives the same Spec.
package spec

import (
	"time"

	"github.com/kvbench/kvbench/internal/pace"
)

// Phase says whether the workload fills the store or exercises it.
type Phase uint8

// The phases.
const (
	Run    Phase = iota // operations of the configured kinds
	Load                // every record is inserted once
	Verify              // what was loaded is read and checked
)

// String returns "run", "load" or "verify".
func (p Phase) String() string { return [...]string{"run", "load", "verify"}[p] }

// Values of the properties that offer a choice.
const (
	// requestdistribution, fieldlengthdistribution, scanlengthdistribution
	Uniform     = "uniform"
	Sequential  = "sequential"
	Zipfian     = "zipfian"
	Latest      = "latest"
	Hotspot     = "hotspot"
	Exponential = "exponential"
	Constant    = "constant"
	Histogram   = "histogram"

	// insertorder
	Hashed  = "hashed"
	Ordered = "ordered"

	// keyhash, valueformat, integrityformat
	GoYCSB  = "go-ycsb"
	YCSB    = "ycsb"
	Mix     = "mix"
	Raw     = "raw"
	Balance = "balance"
	CRC32C  = "crc32c"

	// keyformat
	Decimal = "decimal"
	Hex     = "hex"

	// updatemode
	ReadModifyWrite = "read-modify-write"
	Blind           = "blind"
	CompareAndSwap  = "compare-and-swap"

	// verify
	No     = "no"
	ByScan = "scan"
	ByGet  = "get"

	// manifest
	InStore   = "store"
	InResults = "results"
	None      = "none"

	// arrival
	Poisson = "poisson"

	// driver
	RawKV  = "rawkv"
	TxnKV  = "txnkv"
	Stream = "stream"

	// tikv.type
	RawAPI = "raw"
	TxnAPI = "txn"

	// txn.mode
	Optimistic  = "optimistic"
	Pessimistic = "pessimistic"

	// txn.priority
	Low    = "low"
	Normal = "normal"
	High   = "high"

	// txn.replicaread
	Leader   = "leader"
	Follower = "follower"
	Mixed    = "mixed"

	// txn.isolation
	Snapshot  = "snapshot"
	RC        = "rc"
	RCCheckTS = "rc-check-ts"

	// tikv.apiversion
	V1    = "V1"
	V1TTL = "V1TTL"
	V2    = "V2"
)

// Spec is a workload and how to run it. Counts are operations or records over the
// whole fleet unless said otherwise.
type Spec struct {
	Phase Phase

	// Key space: the records [InsertStart, InsertStart+InsertCount) of [0, Records).
	Records     int64
	InsertStart int64
	InsertCount int64 // never 0 in a parsed Spec

	// How long. A run ends at whichever comes first.
	Operations int64         // after Warmup; 0: until Duration
	Duration   time.Duration // the measured window, after Warmup; 0: until Operations
	Warmup     time.Duration
	Grace      time.Duration // for calls in flight at the end

	// How fast.
	Threads int     // calls in flight per worker
	Target  float64 // operations a second over the fleet at the start; 0: unpaced
	Stages  []Stage // the target over time, when it is more than one number
	CatchUp float64 // bound on the rate after a stall, as a multiple of the target; 0: skip missed slots
	Arrival string  // Uniform or Poisson
	Batch   int     // operations per client call
	Clients int     // workers to use; 0: all that are there
	Seed    uint64  // of everything random

	Proportions Proportions

	// Which records.
	Distribution       string // of requests over records
	HotData, HotOps    float64
	ExpPercentile      float64 // this share of the requests, in percent, …
	ExpFraction        float64 // … goes to this fraction of the records, the newest
	ZipfConstant       float64
	ZipfItems          int64 // ranks of the zipfian law; 0: as many as there are records
	MinScan, MaxScan   int64
	ScanDistribution   string
	InsertRetries      int // of a failed insert, at once
	CompareSwapRetries int // of a compare-and-swap that found another value

	Key Key
	Row Row

	ReadAllFields  bool
	WriteAllFields bool
	UpdateMode     string // ReadModifyWrite, Blind or CompareAndSwap
	UpdateMissing  bool   // an update of a missing key inserts the row
	TTL            time.Duration

	Integrity       bool   // values carry and are checked for a checksum
	IntegrityFormat string // CRC32C or GoYCSB: how values are made checkable
	VerifyWrites    bool   // acknowledged writes are read back after the run
	VerifyKeys      int    // most keys per worker that are followed for that
	Verify          string // No, ByScan or ByGet; other than No makes the Phase Verify
	Manifest        string // InStore, InResults or None
	Reload          bool   // load again what is there

	Driver     string // RawKV, TxnKV or Stream
	TiKV       TiKV
	Txn        Transactions
	StreamOpts StreamOptions

	// Warnings say what was accepted but does not do what its writer may expect.
	Warnings []string

	origin map[string]string // property name → where its value came from, when not the default
}

// Stage is a stretch of a target profile: the rate moves from From to To,
// operations a second, within Length. A Length of 0 is without end.
type Stage struct {
	From, To float64
	Length   time.Duration
}

// Proportions are the weights of the kinds of operation; only their ratios matter.
type Proportions struct {
	Read, Update, Insert, Delete, Scan, ReadModifyWrite float64
}

// Sum returns the sum of the weights.
func (p Proportions) Sum() float64 {
	return p.Read + p.Update + p.Insert + p.Delete + p.Scan + p.ReadModifyWrite
}

// Key is how a record's number becomes a key: Table ":" Prefix number.
type Key struct {
	Table   string
	Prefix  string
	Order   string // Hashed or Ordered
	Hash    string // GoYCSB, YCSB or Mix
	Format  string // Decimal or Hex
	Padding int    // width of the number, filled with zeros
	Length  int    // of Prefix and number together, exactly; 0: as it comes
}

// Row is the shape of a row and its encoding.
type Row struct {
	Fields             int
	FieldPrefix        string
	FieldLength        int // bytes; the largest for distributions other than Constant and Histogram
	MinFieldLength     int
	LengthDistribution string
	LengthHistogram    LengthHistogram
	Format             string  // GoYCSB, YCSB, Raw or Balance
	Compressibility    float64 // fraction of a field that compresses away, 0 to 1
}

// Transactions says how transactions are made.
type Transactions struct {
	Mode        string        // Optimistic or Pessimistic
	Retries     int           // of a transaction that was lost to another one
	Backoff     time.Duration // before the first of them, at most; 0: none
	LockWait    time.Duration // Pessimistic: for how long a lock is waited for; 0: not at all
	AsyncCommit bool
	OnePhase    bool
	Causal      bool
	Priority    string        // Low, Normal or High
	Replicas    string        // Leader, Follower or Mixed: whom calls that only read may ask
	Isolation   string        // Snapshot, RC or RCCheckTS: of READ and SCAN
	Staleness   time.Duration // how long ago READ and SCAN read; 0: now
}

// TiKV says how to reach the cluster. The names are client-go's where it has them.
type TiKV struct {
	PD                []string
	API               string // RawAPI or TxnAPI
	APIVersion        string // V1, V1TTL or V2
	Keyspace          string // V2 only
	ColumnFamily      string // "" is the default one
	ConnCount         int    // connections per store and client
	MaxBatchSize      int    // requests in one BatchCommands message
	BatchWaitTime     time.Duration
	BatchWaitSize     int
	OverloadThreshold int
	Timeout           time.Duration // per call
	Clients           int           // client instances per worker
	ServerMetrics     time.Duration // how often the stores' own figures are read; 0: never
	CA, Cert, Key     string        // PEM files; empty is plaintext
}

// StreamOptions are those of the stream driver.
type StreamOptions struct {
	MaxBatch int           // requests in one message
	Linger   time.Duration // how long a request may wait for company
	Streams  int           // per store and lane
}

// Paced reports whether there is a target.
func (s *Spec) Paced() bool { return s.Target > 0 || len(s.Stages) > 0 }

// CountsWhole tells whether what the stores counted is compared over the whole run, at the cost of a second at its start and at its end: where
// that is given a time in which the stores' figures are read at least twice.
func (s *Spec) CountsWhole() bool {
	every := s.TiKV.ServerMetrics
	return every > 0 && s.Duration > 0 && s.Warmup+s.Duration >= 2*every
}

// Profile is the target over time, in operations a second over the fleet. It is an
// error if there is none.
func (s *Spec) Profile() (pace.Profile, error) {
	if len(s.Stages) == 0 {
		return pace.NewProfile(pace.Stage{From: s.Target, To: s.Target})
	}
	stages := make([]pace.Stage, len(s.Stages))
	for i, st := range s.Stages {
		stages[i] = pace.Stage(st)
	}
	return pace.NewProfile(stages...)
}
