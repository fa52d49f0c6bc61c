// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// defaultDuration is that of a run which says neither how many operations nor how long.
const defaultDuration = time.Minute

// checker collects what is wrong with combinations of properties, each under the
// name of the one that should change.
type checker struct {
	spec    *Spec
	written map[string]Pair
	files   map[string]bool // what was written in a file
	errs    []error
}

// require reports a problem with the property unless ok.
func (c *checker) require(ok bool, name, format string, args ...any) {
	if ok {
		return
	}
	pair, found := c.written[name]
	if !found {
		pair = Pair{Key: name, Value: byName[name].format(c.spec), Where: "default"}
	}
	c.errs = append(c.errs, &Error{pair.Where, pair.Key, pair.Value, fmt.Sprintf(format, args...)})
}

// finish fills in what follows from other properties and checks combinations.
func (s *Spec) finish(written map[string]Pair, files map[string]bool) []error {
	if s.Verify != No {
		s.Phase = Verify
	}
	c := &checker{spec: s, written: written, files: files}
	c.records()
	c.length()
	c.operations()
	c.keys()
	c.rows()
	c.cluster()
	c.transactions()
	c.bank()
	return c.errs
}

func (c *checker) records() {
	s := c.spec
	c.require(s.InsertStart < s.Records, "insertstart",
		"lies at or beyond recordcount=%d; the first record is 0", s.Records)
	if s.InsertStart < s.Records {
		c.require(s.InsertCount <= s.Records-s.InsertStart, "insertcount",
			"insertstart=%d and insertcount=%d reach beyond recordcount=%d", s.InsertStart, s.InsertCount, s.Records)
	}
	if s.InsertCount == 0 {
		s.InsertCount = s.Records - s.InsertStart
	}
}

func (c *checker) length() {
	s := c.spec
	if s.Phase == Verify {
		s.Target, s.Stages = 0, nil // it reads slices of many rows, as fast as its threads do
	}
	if s.Phase != Run {
		if s.Duration > 0 || s.Operations > 0 || s.Warmup > 0 {
			s.Duration, s.Operations, s.Warmup = 0, 0, 0
			c.ignored("a load ends when every record is in", "maxexecutiontime", "operationcount", "warmuptime")
		}
		return
	}
	// YCSB's files have an operationcount, of 1,000 mostly. Who says how long means that.
	if c.files["operationcount"] && !c.files["maxexecutiontime"] && s.Operations > 0 && s.Duration > 0 {
		s.warn("%s: operationcount=%d does not end the run, %s does; --operations ends it by count as well",
			c.written["operationcount"].Where, s.Operations, c.written["maxexecutiontime"].Where)
		s.Operations = 0
	}
	if s.Operations == 0 && s.Duration == 0 {
		s.Duration = defaultDuration
	}
	c.require(s.CatchUp == 0 || s.CatchUp >= 1, "catchup", "must be 0 (skip missed slots) or at least 1")
}

// ignored warns of those of the properties that were written with a value; files
// are shared between load and run, so operationcount alone is not worth a word.
func (c *checker) ignored(why string, names ...string) {
	for _, name := range names {
		if pair, ok := c.written[name]; ok && name != "operationcount" && pair.Value != "0" {
			c.spec.warn("%s: %s is for runs: %s", pair.Where, name, why)
		}
	}
}

func (c *checker) operations() {
	s := c.spec
	c.require(!s.VerifyWrites || s.TTL == 0, "verifywrites", "cannot tell rows that are lost from rows whose ttl is over")
	if s.VerifyWrites && s.Phase != Run {
		s.warn("verifywrites is for runs: kvbench verify checks what a load has written")
	}
	c.require(s.Proportions.Sum() > 0, "readproportion", "all proportions are 0; give at least one kind of operation a weight")
	c.require(s.MinScan <= s.MaxScan, "minscanlength", "is above maxscanlength=%d", s.MaxScan)
	c.require(s.TTL%time.Second == 0, "ttl", "must be whole seconds")
	c.require(s.TTL == 0 || s.TiKV.APIVersion != V1, "ttl", "needs tikv.apiversion=V1TTL or V2")
	if s.IsDefault("threadcount") && s.Phase == Run {
		s.warn("threadcount is not set: 1 call in flight per worker")
	}
	if s.IsDefault("recordcount") && !s.RecordsOpen() {
		s.warn("recordcount is not set: %d records assumed", s.Records)
	}
}

// digits returns the most digits that a record's number has in a key.
func (s *Spec) digits() int {
	most := 19
	switch {
	case s.Key.Format == Hex:
		most = 16
	case s.Key.Order == Ordered:
		most = len(strconv.FormatInt(s.Records-1, 10))
		if s.Proportions.Insert > 0 {
			most++ // room for a run to insert nine times what was loaded
		}
	case s.Key.Hash == Mix:
		most = 20
	}
	return max(most, s.Key.Padding)
}

func (c *checker) keys() {
	s := c.spec
	if s.Key.Length > 0 {
		need := len(s.Key.Prefix) + s.digits()
		c.require(s.Key.Length >= need, "keylength",
			"prefix %q and a number of up to %d digits need %d; shorten keyprefix or set keylength=%d", s.Key.Prefix, s.digits(), need, need)
	}
	c.require(len(s.Key.Table)+len(s.Key.Prefix) <= 2048, "keyprefix", "table and prefix may be 2048 bytes at most")
}

// overhead returns how many bytes a write may have besides the bytes of its fields.
func (c *checker) overhead() int64 {
	r, k := &c.spec.Row, &c.spec.Key
	perField := 0
	switch r.Format {
	case GoYCSB:
		perField = 2 + 3 + 5 // flags, number, length
	case YCSB:
		perField = 4 + len(r.FieldPrefix) + len(strconv.Itoa(maxFields)) + 4
	}
	const request = 512 // around them: region, column family, time to live, lengths
	return int64(r.Fields*perField + len(k.Table) + 1 + max(len(k.Prefix)+c.spec.digits(), k.Length) + request)
}

func (c *checker) rows() {
	s := c.spec
	r := &s.Row
	longest := int64(r.FieldLength)
	switch r.LengthDistribution {
	case Histogram:
		longest = r.LengthHistogram.Max()
		c.require(longest > 0, "fieldlengthhistogram", "is needed for fieldlengthdistribution=histogram")
	case Uniform, Zipfian:
		c.require(r.MinFieldLength <= r.FieldLength, "minfieldlength", "is above fieldlength=%d", r.FieldLength)
	}
	room := (maxBytes - c.overhead()) / int64(r.Fields)
	c.require(longest <= room, "fieldlength",
		"%d fields of %d bytes are, with the key, more than a store takes in one write (%d bytes): at most %d bytes a field", r.Fields, longest, maxBytes, room)
	constant := r.LengthDistribution == Constant
	c.require(r.Format != Raw || r.Fields == 1 || constant, "valueformat",
		"raw has no field boundaries: use fieldcount=1 or fieldlengthdistribution=constant")
	if !s.Integrity {
		return
	}
	c.require(s.IntegrityFormat == CRC32C || constant, "integrityformat",
		"go-ycsb's values need fieldlengthdistribution=constant; crc32c works with any")
	c.require(s.IntegrityFormat == CRC32C || r.Compressibility == 0, "compressibility",
		"integrityformat=go-ycsb fixes every byte of a value; use crc32c")
	c.require(!constant || r.FieldLength > 0, "fieldlength", "an empty field cannot carry a checksum")
}

func (c *checker) cluster() {
	t := &c.spec.TiKV
	c.require(t.Keyspace == "" || t.APIVersion == V2, "tikv.keyspace", "needs tikv.apiversion=V2")
	c.require((t.Cert == "") == (t.Key == ""), "tikv.cert", "tikv.cert and tikv.key belong together")
	c.require(t.Cert == "" || t.CA != "", "tikv.ca", "is needed with tikv.cert")
	c.require(t.CA == "" || t.Cert != "", "tikv.cert", "is needed with tikv.ca, and tikv.key too: TiKV asks every client for a certificate")
	pd := c.written["tikv.pd"].Value // as written: addresses are kept without their schemes
	c.require(t.CA != "" || !strings.Contains(pd, "https://"), "tikv.pd",
		"https asks for TLS: set tikv.ca, tikv.cert and tikv.key, or write http if the cluster does without")
	c.require(t.CA == "" || !strings.Contains(pd, "http://"), "tikv.pd",
		"http is without TLS, and tikv.ca is set: write https, or leave out tikv.ca, tikv.cert and tikv.key")
	c.require(t.ServerMetrics == 0 || t.ServerMetrics >= time.Second, "tikv.servermetrics", "must be at least 1s, or 0s for never: a store's page is large")
	c.require(t.Timeout >= time.Millisecond, "tikv.timeout", "must be at least 1ms")
}

func (c *checker) transactions() {
	s := c.spec
	if s.TiKV.API == RawAPI {
		c.require(s.Driver != TxnKV, "driver", "is for transactions: write tikv.type=txn")
		return
	}
	if s.IsDefault("driver") {
		s.Driver = TxnKV
	}
	c.require(s.Driver == TxnKV, "driver", "knows no transactions: leave it out, or write txnkv")
	c.require(s.TiKV.APIVersion != V1TTL, "tikv.apiversion", "V1TTL is for the raw API alone: transactions need V1 or V2")
	c.require(s.TTL == 0, "ttl", "transactions know no time to live")
	c.require(s.TiKV.ColumnFamily == "", "columnfamily", "transactions have their own column families")
	c.require(s.UpdateMode != CompareAndSwap, "updatemode", "transactions find conflicts by themselves: write read-modify-write or blind")
	c.require(s.Txn.LockWait%time.Millisecond == 0, "txn.lockwait", "must be whole milliseconds")
	c.require(s.Txn.Staleness%time.Millisecond == 0, "txn.staleness", "must be whole milliseconds")
	c.require(s.Txn.Staleness == 0 || s.Txn.Isolation != RCCheckTS, "txn.isolation",
		"does not go with txn.staleness=%v: each row that was written since would be a conflict; write snapshot or rc", s.Txn.Staleness)
}

// Balances: transfers and sums, and what would make a sum that is right look wrong.
const (
	// OpeningBalance is what each account holds when it is loaded.
	OpeningBalance = 1000

	mostAccounts  = maxScan - 1 // one scan sums them, and sees whether there are more
	balanceDigits = 8           // of OpeningBalance × mostAccounts, which one account may come to hold
)

func (c *checker) bank() {
	s := c.spec
	if s.Row.Format != Balance {
		return
	}
	p, r := &s.Proportions, &s.Row
	c.require(s.TiKV.API == TxnAPI, "valueformat", "balances are for transactions: write tikv.type=txn (--api txn)")
	c.require(s.Verify == No, "verify", "the sum is that of one snapshot, which a run reads: kvbench run -w bank -p updateproportion=0 --operations 1")
	c.require(p.Update+p.Scan == p.Sum(), "valueformat", "balances know transfers and sums only: leave no proportions but updateproportion and scanproportion")
	c.require(s.InsertCount >= 2, "recordcount", "a transfer needs two accounts")
	c.require(s.InsertCount <= mostAccounts, "recordcount", "one scan sums all accounts: at most %d", mostAccounts)
	c.require(s.InsertCount == s.Records, "insertcount", "the sum is that of all accounts: leave out insertstart and insertcount")
	c.require(s.Batch == 1 || s.Phase == Load, "batch.size", "a transfer is a transaction of its own: leave it out")
	c.require(r.Fields == 1, "fieldcount", "a balance is one field: write 1")
	c.require(r.LengthDistribution == Constant, "fieldlengthdistribution", "balances have one length: write constant")
	c.require(r.FieldLength >= balanceDigits, "fieldlength", "the sum of all accounts may lie in one: at least %d digits", balanceDigits)
	c.require(!s.Integrity, "dataintegrity", "balances carry no checksum: their sum is checked")
	c.require(!s.VerifyWrites, "verifywrites", "balances repeat, so an older one cannot be told: their sum is checked")
	c.require(s.UpdateMode == ReadModifyWrite && !s.UpdateMissing, "updatemode", "a transfer reads what it changes, and makes no accounts: write read-modify-write, and updatemissing=false")
	c.require(s.Txn.Isolation == Snapshot, "txn.isolation", "only a snapshot has the right sum: write snapshot")
	c.require(s.Txn.Staleness == 0, "txn.staleness", "the table may be younger than that: leave it out")
}
