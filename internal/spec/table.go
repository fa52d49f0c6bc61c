// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"strings"
)

// Definition describes one property, for documentation and for listing.
type Definition struct {
	Name    string
	Aliases []string // other names for the same property
	Group   string
	Default string
	Kind    string   // what may be written, in words
	Choices []string // the words that may be written, if there are only some
	Doc     string   // one line
	Shape   bool     // decides what keys and rows look like: a run needs the values of the load
}

// property is a definition and how its text reaches a Spec and comes back.
type property struct {
	Definition
	parse  func(s *Spec, text string) error
	format func(s *Spec) string
}

// Definitions returns all properties, grouped, in the order of the documentation.
func Definitions() []Definition {
	all := make([]Definition, len(table))
	for i, p := range table {
		all[i] = p.Definition
	}
	return all
}

// Choices returns the words that a property may be set to; none, if it takes more than some.
func Choices(name string) []string {
	if p := lookup(name); p != nil {
		return slices.Clone(p.Choices)
	}
	return nil
}

// Limits that keep arithmetic and memory safe. They lie far beyond real use.
const (
	maxCount  = int64(1) << 60
	maxBytes  = 8 << 20 // of a row: what a store takes in one write
	maxBatch  = 1 << 16
	maxFields = 1 << 14
	maxScan   = 10240 // rows: what client-go takes in one scan
)

// table is every property. It is read only.
var table = slices.Concat(
	group("key space",
		integer("recordcount", "1000", 1, maxCount, "records in the store; a run that sets no count or start uses those that were loaded",
			func(s *Spec) *int64 { return &s.Records }),
		integer("insertstart", "0", 0, maxCount, "first record of the part to load or use",
			func(s *Spec) *int64 { return &s.InsertStart }),
		integer("insertcount", "0", 0, maxCount, "records in that part; 0: all from insertstart on",
			func(s *Spec) *int64 { return &s.InsertCount }),
		phase(),
	),
	group("length and pace",
		integer("operationcount", "0", 0, maxCount, "operations of a run after its warm-up, over the fleet; 0: until maxexecutiontime, which wins over a file's operationcount if it is not in a file itself",
			func(s *Spec) *int64 { return &s.Operations }),
		seconds("maxexecutiontime", "0", "measured time of a run; 0 without operationcount: 60 s; a load always runs to its end",
			func(s *Spec) *duration { return &s.Duration }),
		seconds("warmuptime", "0", "the same load before measuring begins",
			func(s *Spec) *duration { return &s.Warmup }),
		seconds("grace", "10", "how long calls in flight at the end are waited for",
			func(s *Spec) *duration { return &s.Grace }),
		number("threadcount", "1", 1, 1<<20, "calls in flight per worker",
			func(s *Spec) *int { return &s.Threads }),
		target(),
		real("catchup", "2", 0, 1000, "after a stall, at most this multiple of the target; 0: skip missed slots",
			func(s *Spec) *float64 { return &s.CatchUp }),
		choice("arrival", Uniform, "spacing of paced starts",
			func(s *Spec) *string { return &s.Arrival }, Uniform, Poisson),
		number("batch.size", "1", 1, maxBatch, "operations in one client call",
			func(s *Spec) *int { return &s.Batch }),
		number("clients", "0", 0, 1<<16, "workers to use, the first so many; with fewer nothing starts; 0: all",
			func(s *Spec) *int { return &s.Clients }),
		seed(),
	),
	group("operations",
		weight("readproportion", "0.95", "weight of READ", func(s *Spec) *float64 { return &s.Proportions.Read }),
		weight("updateproportion", "0.05", "weight of UPDATE", func(s *Spec) *float64 { return &s.Proportions.Update }),
		weight("insertproportion", "0", "weight of INSERT", func(s *Spec) *float64 { return &s.Proportions.Insert }),
		weight("deleteproportion", "0", "weight of DELETE", func(s *Spec) *float64 { return &s.Proportions.Delete }),
		weight("scanproportion", "0", "weight of SCAN", func(s *Spec) *float64 { return &s.Proportions.Scan }),
		weight("readmodifywriteproportion", "0", "weight of READ_MODIFY_WRITE",
			func(s *Spec) *float64 { return &s.Proportions.ReadModifyWrite }),
		boolean("readallfields", "true", "read all fields, not one; the raw API transfers the whole row either way",
			func(s *Spec) *bool { return &s.ReadAllFields }),
		boolean("writeallfields", "false", "an update writes all fields, not one",
			func(s *Spec) *bool { return &s.WriteAllFields }),
		choice("updatemode", ReadModifyWrite, "get, change and put the row; or put a whole new row; or get and compare-and-swap",
			func(s *Spec) *string { return &s.UpdateMode }, ReadModifyWrite, Blind, CompareAndSwap),
		boolean("updatemissing", "false", "an update of a missing key inserts the whole row, instead of counting not_found",
			func(s *Spec) *bool { return &s.UpdateMissing }),
		number("casretries", "10", 0, 1<<20, "retries of a compare-and-swap that found another value",
			func(s *Spec) *int { return &s.CompareSwapRetries }),
		number("core_workload_insertion_retry_limit", "0", 0, 1<<20, "retries of a failed insert of a load",
			func(s *Spec) *int { return &s.InsertRetries }),
		seconds("ttl", "0", "time to live of written rows, whole seconds; 0: forever",
			func(s *Spec) *duration { return &s.TTL }),
	),
	group("distributions",
		choice("requestdistribution", Uniform, "of requests over records",
			func(s *Spec) *string { return &s.Distribution }, Uniform, Sequential, Zipfian, Latest, Hotspot, Exponential),
		real("hotspotdatafraction", "0.2", 0, 1, "hotspot: fraction of the records that is hot",
			func(s *Spec) *float64 { return &s.HotData }),
		real("hotspotopnfraction", "0.8", 0, 1, "hotspot: fraction of the operations that goes there",
			func(s *Spec) *float64 { return &s.HotOps }),
		real("exponential.percentile", "95", 0.001, 99.999, "exponential: percentage of the operations …",
			func(s *Spec) *float64 { return &s.ExpPercentile }),
		real("exponential.frac", "0.8571428571", 1e-9, 1, "… that goes to this fraction of the records, the newest",
			func(s *Spec) *float64 { return &s.ExpFraction }),
		real("zipfian.constant", "0.99", 0.01, 10, "exponent of the zipfian law",
			func(s *Spec) *float64 { return &s.ZipfConstant }),
		integer("zipfian.items", "0", 0, maxCount, "ranks of the zipfian law, folded onto the records; 0: one per record; YCSB and go-ycsb: 10000000000",
			func(s *Spec) *int64 { return &s.ZipfItems }),
		integer("minscanlength", "1", 1, maxScan, "fewest rows of a scan", func(s *Spec) *int64 { return &s.MinScan }),
		integer("maxscanlength", "1000", 1, maxScan, "most rows of a scan; TiKV's clients take no more than 10240", func(s *Spec) *int64 { return &s.MaxScan }),
		choice("scanlengthdistribution", Uniform, "of scan lengths",
			func(s *Spec) *string { return &s.ScanDistribution }, Uniform, Zipfian),
	),
	shape("keys",
		text("table", "usertable", "first part of a key, before the colon", func(s *Spec) *string { return &s.Key.Table }),
		text("keyprefix", "user", "second part of a key, before the number", func(s *Spec) *string { return &s.Key.Prefix }),
		choice("insertorder", Hashed, "hashed: the number is a hash of the record's number; ordered: that number itself",
			func(s *Spec) *string { return &s.Key.Order }, Hashed, Ordered),
		choice("keyhash", GoYCSB, "go-ycsb: FNV-1a over big-endian bytes; ycsb: over little-endian bytes; mix: one-to-one, spreads consecutive records evenly",
			func(s *Spec) *string { return &s.Key.Hash }, GoYCSB, YCSB, Mix),
		choice("keyformat", Decimal, "of the number; hex is 16 digits",
			func(s *Spec) *string { return &s.Key.Format }, Decimal, Hex),
		number("zeropadding", "1", 0, 64, "least digits of the number", func(s *Spec) *int { return &s.Key.Padding }),
		size("keylength", "0", 0, 4096, "exact length of prefix and number, filled with zeros; 0: as it comes",
			func(s *Spec) *int { return &s.Key.Length }),
	),
	shape("rows",
		number("fieldcount", "10", 1, maxFields, "fields of a row", func(s *Spec) *int { return &s.Row.Fields }),
		size("fieldlength", "100", 0, maxBytes, "bytes of a field, or the most", func(s *Spec) *int { return &s.Row.FieldLength }),
		size("minfieldlength", "1", 0, maxBytes, "fewest bytes of a field, for uniform and zipfian",
			func(s *Spec) *int { return &s.Row.MinFieldLength }),
		choice("fieldlengthdistribution", Constant, "of field lengths",
			func(s *Spec) *string { return &s.Row.LengthDistribution }, Constant, Uniform, Zipfian, Histogram),
		lengthHistogram(),
		text("fieldnameprefix", "field", "names of fields, before their number (ycsb value format)",
			func(s *Spec) *string { return &s.Row.FieldPrefix }),
		choice("valueformat", GoYCSB, "go-ycsb: its row codec; ycsb: lengths and names as YCSB's key-value bindings; raw: the fields' bytes alone; balance: what an account holds, for the workload bank",
			func(s *Spec) *string { return &s.Row.Format }, GoYCSB, YCSB, Raw, Balance),
		boolean("dataintegrity", "false", "values carry a checksum, and what is read is checked",
			func(s *Spec) *bool { return &s.Integrity }),
	),
	group("contents and verification",
		real("compressibility", "0", 0, 1, "fraction of a field that compresses away",
			func(s *Spec) *float64 { return &s.Row.Compressibility }),
		choice("integrityformat", CRC32C, "of written values; both are understood when read: go-ycsb is its dataintegrity text",
			func(s *Spec) *string { return &s.IntegrityFormat }, CRC32C, GoYCSB),
		boolean("verifywrites", "false", "after a run, read back what was acknowledged",
			func(s *Spec) *bool { return &s.VerifyWrites }),
		number("verifywrites.keys", "1000000", 1, 1<<30, "keys per worker whose writes are followed, about 200 bytes each; beyond, a sample of all keys",
			func(s *Spec) *int { return &s.VerifyKeys }),
		choice("verify", No, "in the place of a load or a run: scan the table, or get every record, and check all of it (kvbench verify)",
			func(s *Spec) *string { return &s.Verify }, No, ByScan, ByGet),
		choice("manifest", InStore, "where it is remembered what was loaded: under a reserved key of the store, in the results directory, or nowhere",
			func(s *Spec) *string { return &s.Manifest }, InStore, InResults, None),
		boolean("reload", "false", "load again what is there already, and over data of another shape",
			func(s *Spec) *bool { return &s.Reload }),
	),
	group("TiKV",
		choice("driver", RawKV, "rawkv: client-go, as applications use it; stream: BatchCommands streams without it; txnkv: client-go's transactions, as set by tikv.type=txn",
			func(s *Spec) *string { return &s.Driver }, RawKV, Stream, TxnKV),
		choice("tikv.type", RawAPI, "TiKV's API: raw, or txn for transactions: a batch is one, and so is an update's or a READ_MODIFY_WRITE's read with its write",
			func(s *Spec) *string { return &s.TiKV.API }, RawAPI, TxnAPI),
		addresses("tikv.pd", "127.0.0.1:2379", "PD addresses, host:port separated by commas",
			func(s *Spec) *[]string { return &s.TiKV.PD }),
		choice("tikv.apiversion", V1, "API version of the cluster",
			func(s *Spec) *string { return &s.TiKV.APIVersion }, V1, V1TTL, V2),
		text("tikv.keyspace", "", "keyspace, for tikv.apiversion=V2", func(s *Spec) *string { return &s.TiKV.Keyspace }),
		text("columnfamily", "", "column family; empty: the default one", func(s *Spec) *string { return &s.TiKV.ColumnFamily }).as("tikv.columnfamily", "tikv.cf"),
		number("tikv.conncount", "4", 1, 4096, "rawkv driver: connections per store and client, as client-go has it (go-ycsb: 128)",
			func(s *Spec) *int { return &s.TiKV.ConnCount }),
		number("tikv.batchsize", "128", 0, 1<<16, "most requests in one BatchCommands message; 0: no messages of several",
			func(s *Spec) *int { return &s.TiKV.MaxBatchSize }),
		span("tikv.batchwait", "0s", "how long client-go may wait to fill a message",
			func(s *Spec) *duration { return &s.TiKV.BatchWaitTime }),
		number("tikv.batchwaitmax", "8", 1, 1<<16, "requests in a message that end that wait",
			func(s *Spec) *int { return &s.TiKV.BatchWaitSize }),
		number("tikv.overloadthreshold", "200", 0, 1<<20, "store load above which client-go waits to fill messages",
			func(s *Spec) *int { return &s.TiKV.OverloadThreshold }),
		span("tikv.timeout", "20s", "most time of one call, retries included",
			func(s *Spec) *duration { return &s.TiKV.Timeout }),
		number("tikv.clients", "1", 1, 1024, "client instances per worker", func(s *Spec) *int { return &s.TiKV.Clients }),
		span("tikv.servermetrics", "5s", "how often one worker reads the stores' own figures at their status addresses, 1s at least; 0s: never",
			func(s *Spec) *duration { return &s.TiKV.ServerMetrics }),
		text("tikv.ca", "", "PEM file of the authorities that sign the cluster's certificates", func(s *Spec) *string { return &s.TiKV.CA }),
		text("tikv.cert", "", "PEM file of the client's certificate", func(s *Spec) *string { return &s.TiKV.Cert }),
		text("tikv.key", "", "PEM file of the client's key", func(s *Spec) *string { return &s.TiKV.Key }),
		number("stream.maxbatch", "128", 1, 1<<16, "stream driver: most requests in one message",
			func(s *Spec) *int { return &s.StreamOpts.MaxBatch }),
		span("stream.linger", "0s", "stream driver: how long a request may wait for company",
			func(s *Spec) *duration { return &s.StreamOpts.Linger }),
		number("stream.streams", "1", 1, 1024, "stream driver: streams per store and lane",
			func(s *Spec) *int { return &s.StreamOpts.Streams }),
	),
	group("transactions (tikv.type=txn)",
		choice("txn.mode", Optimistic, "optimistic: conflicts are found when a transaction is committed; pessimistic: it locks what it will write when it reads it",
			func(s *Spec) *string { return &s.Txn.Mode }, Optimistic, Pessimistic),
		number("txn.retries", "10", 0, 1<<20, "retries of a transaction that was lost to another one (write_conflict, deadlock, rolled_back); go-ycsb: 0",
			func(s *Spec) *int { return &s.Txn.Retries }),
		span("txn.backoff", "4ms", "the first retry waits for anything up to this, the next one for up to twice as long, and so on to 100 times; 0s: none waits",
			func(s *Spec) *duration { return &s.Txn.Backoff }),
		span("txn.lockwait", "10s", "pessimistic: for how long a lock is waited for, in whole milliseconds; 0s: not at all",
			func(s *Spec) *duration { return &s.Txn.LockWait }),
		boolean("tikv.async_commit", "true", "a transaction is committed once all of its keys are prewritten",
			func(s *Spec) *bool { return &s.Txn.AsyncCommit }),
		boolean("tikv.one_pc", "true", "one whose keys lie in one region is committed by its prewrite",
			func(s *Spec) *bool { return &s.Txn.OnePhase }),
		boolean("tikv.causal_consistency", "false", "async commit and one phase: spare the second timestamp; the order of transactions that do not read each other is open",
			func(s *Spec) *bool { return &s.Txn.Causal }),
		choice("txn.priority", Normal, "of commands at the stores",
			func(s *Spec) *string { return &s.Txn.Priority }, Low, Normal, High),
		choice("txn.replicaread", Leader, "whom READ and SCAN ask for their snapshot",
			func(s *Spec) *string { return &s.Txn.Replicas }, Leader, Follower, Mixed),
		choice("txn.isolation", Snapshot, "of READ and SCAN; rc: what is committed, past locks; rc-check-ts: so, but a row that is newer than the read is a conflict",
			func(s *Spec) *string { return &s.Txn.Isolation }, Snapshot, RC, RCCheckTS),
		span("txn.staleness", "0s", "READ and SCAN read as of so long ago, in whole milliseconds, without a timestamp from PD, READ from any replica; 0s: as of now",
			func(s *Spec) *duration { return &s.Txn.Staleness }),
	),
)

// byName finds a property by its name or an alias.
var byName = func() map[string]*property {
	m := make(map[string]*property)
	for i := range table {
		p := &table[i]
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			m[name] = p
		}
	}
	return m
}()

func group(name string, properties ...property) []property {
	for i := range properties {
		properties[i].Group = name
	}
	return properties
}

// shape is a group of properties that decide what keys and rows look like.
func shape(name string, properties ...property) []property {
	for i := range properties {
		properties[i].Shape = true
	}
	return group(name, properties...)
}

func (p property) as(aliases ...string) property {
	p.Aliases = aliases
	return p
}

// lookup finds a property; names are exact, as they are in YCSB.
func lookup(name string) *property { return byName[strings.TrimSpace(name)] }
