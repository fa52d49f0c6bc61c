// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/workloads"
)

// pairs makes a source of "key=value" strings, as the -p flag does.
func pairs(t testing.TB, text ...string) Source {
	t.Helper()
	s := Source{Name: "-p"}
	for _, kv := range text {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			t.Fatalf("%q has no =", kv)
		}
		s.Pairs = append(s.Pairs, Pair{key, value, "-p"})
	}
	return s
}

func mustParse(t testing.TB, text ...string) *Spec {
	t.Helper()
	s, err := Parse(pairs(t, text...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bare is a Spec without what is not part of its meaning.
func bare(s *Spec) Spec {
	b := *s
	b.origin, b.Warnings = nil, nil
	return b
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := mustParse(t)
	if s.Records != 1000 || s.InsertCount != 1000 || s.Phase != Run || s.Threads != 1 || s.Batch != 1 ||
		s.Row.Fields != 10 || s.Row.FieldLength != 100 || s.Proportions.Read != 0.95 || s.Proportions.Update != 0.05 ||
		s.Distribution != Uniform || s.Key.Table != "usertable" || s.Key.Prefix != "user" || s.Duration != time.Minute ||
		s.Paced() || s.Seed != 1 || !slices.Equal(s.TiKV.PD, []string{"127.0.0.1:2379"}) {
		t.Errorf("%+v", s)
	}
	for _, p := range s.Effective() {
		if p.Where != "default" {
			t.Errorf("%s comes from %s", p.Name, p.Where)
		}
	}
}

// Every property's default is valid and written as it will be shown; names are unique.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, d := range Definitions() {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if harmless[name] != "" || renamed[name] != "" {
				t.Errorf("%s is ours and foreign", name)
			}
		}
		if d.Doc == "" || d.Kind == "" || d.Group == "" {
			t.Errorf("%s lacks documentation: %+v", d.Name, d)
		}
		s := &Spec{}
		p := lookup(d.Name)
		if err := p.parse(s, d.Default); err != nil {
			t.Errorf("default of %s %v", d.Name, err)
		} else if got := p.format(s); got != d.Default {
			t.Errorf("default of %s is written %q and shown %q", d.Name, d.Default, got)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, text := range [][]string{
		{},
		{"dotransactions=false", "recordcount=10000000000", "insertstart=5", "batch.size=100"},
		{"target=1000@30s,1000..50000@5m,50000", "maxexecutiontime=1h", "warmuptime=1.5", "grace=0"},
		{"target=20000.5", "operationcount=99999999999", "tikv.pd=a:1,b:2,[::1]:3", "tikv.batchwait=10ms"},
		{"fieldlengthdistribution=histogram", "fieldlengthhistogram=10:1,0,3", "dataintegrity=true", "verifywrites=yes"},
		{"updatemode=compare-and-swap", "ttl=60", "tikv.apiversion=v2", "tikv.keyspace=x", "requestdistribution=ZIPFIAN", "seed=18446744073709551615"},
	} {
		s := mustParse(t, text...)
		again, err := ParseMap(s.Properties())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(bare(s), bare(again)) {
			t.Errorf("%v:\n%+v\nbecomes\n%+v", text, bare(s), bare(again))
		}
		if !maps.Equal(s.Properties(), again.Properties()) {
			t.Errorf("%v: properties change", text)
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	file, err := ReadSource("workload file w", "w", []byte("target=10\nthreadcount=2\nbatch.size=3\n"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := EnvSource(func(name string) (string, bool) {
		v, ok := map[string]string{"TARGET_IOPS": "20", "NUM_THREADS": "4"}[name]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(file, env, Source{Name: "flags", Pairs: []Pair{{"target", "30", "--target"}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Target != 30 || s.Threads != 4 || s.Batch != 3 {
		t.Errorf("%+v", s)
	}
	where := make(map[string]string)
	for _, p := range s.Effective() {
		where[p.Name] = p.Where
	}
	if where["target"] != "--target" || where["threadcount"] != "NUM_THREADS (environment)" || where["batch.size"] != "w:3" {
		t.Errorf("%v", where)
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "target=1000@30s, 1000..50000@300, 50000")
	want := []Stage{{1000, 1000, 30 * time.Second}, {1000, 50000, 5 * time.Minute}, {50000, 50000, 0}}
	if !slices.Equal(s.Stages, want) || s.Target != 1000 || !s.Paced() {
		t.Errorf("%+v", s.Stages)
	}
}

// Each of these is one clear error that names where, key and value, and says what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text []string
		want string
	}{
		{[]string{"target=100kk"}, "-p: target=100kk: is not a number"},
		{[]string{"recordcount=10_000"}, "is not a whole number; write 10000"},
		{[]string{"recordcount=10b"}, "is not a whole number; write 10000000000"},
		{[]string{"recordcount=1.2345k"}, "is not a whole number"},
		{[]string{"recordcount=10,000"}, "is not a whole number; write 10000"},
		{[]string{"readproportion=0,5"}, "is not a number; write 0.5"},
		{[]string{"readproportion=0,500"}, "is not a number; write 0.5"},
		{[]string{"fieldlength=1k"}, "could be in thousands or in units of 1024: write the bytes out, as 1000"},
		{[]string{"maxscanlength=10241"}, "must be from 1 to 10240"},
		{[]string{"threadcount="}, "threadcount: is not a whole number"},
		{[]string{"target=10,000"}, "without thousands separators"},
		{[]string{"target=-1"}, "must be from 0"},
		{[]string{"target=NaN"}, "is not a number"},
		{[]string{"target=Inf"}, "must be from 0"},
		{[]string{"target=1e400"}, "must be from 0"},
		{[]string{"target=0x10"}, "is not a number"},
		{[]string{"target=10..20"}, "needs a time"},
		{[]string{"target=10@0s,5"}, "takes no time"},
		{[]string{"target=10@5s,0"}, "must end at a rate above 0"},
		{[]string{"target=x@5s"}, "rate of stage 1"},
		{[]string{"threads=1024"}, "write threadcount"},
		{[]string{"thraedcount=4"}, "did you mean threadcount?"},
		{[]string{"recordCount=4"}, "did you mean recordcount?"},
		{[]string{"frobnicate=4"}, "unknown property; kvbench workloads"},
		{[]string{"=4"}, "has no name"},
		{[]string{"tikv.type=tidb"}, "must be one of raw, txn"},
		{[]string{"driver=txnkv"}, "write tikv.type=txn"},
		{[]string{"tikv.type=txn", "driver=stream"}, "knows no transactions"},
		{[]string{"tikv.type=txn", "tikv.apiversion=V1TTL"}, "raw API alone"},
		{[]string{"tikv.type=txn", "tikv.apiversion=V2", "ttl=5"}, "no time to live"},
		{[]string{"tikv.type=txn", "columnfamily=write"}, "own column families"},
		{[]string{"tikv.type=txn", "updatemode=compare-and-swap"}, "find conflicts by themselves"},
		{[]string{"tikv.type=txn", "txn.lockwait=1500us"}, "whole milliseconds"},
		{[]string{"tikv.type=txn", "txn.staleness=1500us"}, "txn.staleness=1500us: must be whole milliseconds"},
		{[]string{"tikv.type=txn", "txn.staleness=2s", "txn.isolation=rc-check-ts"}, "does not go with txn.staleness=2s"},
		{[]string{"tikv.type=txn", "txn.isolation=serializable"}, "must be one of snapshot, rc, rc-check-ts"},
		{bank("tikv.type=raw"), "valueformat=balance: balances are for transactions: write tikv.type=txn"},
		{bank("insertproportion=0.1"), "no proportions but updateproportion and scanproportion"},
		{bank("recordcount=1"), "a transfer needs two accounts"},
		{bank("recordcount=10240"), "one scan sums all accounts: at most 10239"},
		{bank("insertcount=9"), "insertcount=9: the sum is that of all accounts"},
		{bank("batch.size=2"), "a transfer is a transaction of its own"},
		{bank("fieldcount=2"), "a balance is one field"},
		{bank("fieldlengthdistribution=uniform"), "balances have one length"},
		{bank("fieldlength=7"), "at least 8 digits"},
		{bank("dataintegrity=true"), "balances carry no checksum"},
		{bank("verifywrites=true"), "their sum is checked"},
		{bank("verify=scan"), "kvbench run -w bank -p updateproportion=0 --operations 1"},
		{bank("updatemode=blind"), "write read-modify-write"},
		{bank("updatemissing=true"), "updatemissing=false"},
		{bank("txn.isolation=rc"), "only a snapshot has the right sum"},
		{bank("txn.staleness=1s"), "may be younger"},
		{[]string{"workload=site.ycsb.workloads.TimeSeriesWorkload"}, "core workload only"},
		{[]string{"recordcount=0"}, "must be from 1"},
		{[]string{"recordcount=9223372036854775808"}, "must be from 1 to"},
		{[]string{"recordcount=10", "insertstart=10"}, "insertstart=10: lies at or beyond recordcount=10"},
		{[]string{"recordcount=10", "insertstart=5", "insertcount=6"}, "reach beyond recordcount=10"},
		{[]string{"readproportion=0", "updateproportion=0"}, "all proportions are 0"},
		{[]string{"readproportion=-1"}, "must be from 0"},
		{[]string{"hotspotdatafraction=1.1"}, "must be from 0 to 1"},
		{[]string{"hotspotopnfraction=-0.1"}, "must be from 0 to 1"},
		{[]string{"fieldlength=-1"}, "must be from 0"},
		{[]string{"fieldcount=0"}, "must be from 1"},
		{[]string{"fieldcount=1000", "fieldlength=1000000"}, "more than a store takes"},
		{[]string{"fieldcount=1", "fieldlength=8388608"}, "with the key, more than a store takes in one write (8388608 bytes): at most 8388053 bytes a field"},
		{[]string{"table=\xff"}, "is not UTF-8"},
		{[]string{"operations=4"}, "write operationcount"},
		{[]string{"warmup=4"}, "write warmuptime"},
		{[]string{"batch=4"}, "write batch.size"},
		{[]string{"pd=a:1"}, "write tikv.pd"},
		{[]string{"workers=a:1"}, "is a flag: --workers"},
		{[]string{"NUM_THREADS=4"}, "is a variable of the environment; as a property write threadcount"},
		{[]string{"BATCH_WAIT=4ms"}, "write tikv.batchwait or stream.linger"},
		{[]string{"maxscanrate=100"}, "unknown property"},
		{[]string{"cas=true"}, "write updatemode=compare-and-swap"},
		{[]string{"maxscanlength=0"}, "must be from 1"},
		{[]string{"minscanlength=10", "maxscanlength=5"}, "is above maxscanlength=5"},
		{[]string{"fieldlengthdistribution=uniform", "minfieldlength=200"}, "is above fieldlength=100"},
		{[]string{"fieldlengthdistribution=histogram"}, "fieldlengthhistogram: is needed"},
		{[]string{"fieldlengthhistogram=/nowhere/hist.txt"}, "cannot read the histogram"},
		{[]string{"fieldlengthhistogram=10:0,0"}, "no bucket with a count"},
		{[]string{"fieldlengthhistogram=0:1"}, "block size 0 must be from 1"},
		{[]string{"requestdistribution=zipf"}, "must be one of uniform, sequential, zipfian"},
		{[]string{"readallfields=maybe"}, "must be true or false"},
		{[]string{"maxexecutiontime=5minutes"}, "must be seconds, or a duration"},
		{[]string{"maxexecutiontime=-5"}, "must be from 0"},
		{[]string{"maxexecutiontime=99999999d"}, "must be from 0"},
		{[]string{"maxexecutiontime=d"}, "must be seconds, or a duration"},
		{[]string{"maxexecutiontime=1d-5h"}, "must be seconds, or a duration"},
		{[]string{"tikv.batchwait=10"}, "needs a unit: write 10ms"},
		{[]string{"tikv.pd=localhost"}, "is not host:port"},
		{[]string{"tikv.pd=a:2379,b"}, `"b" is not host:port`},
		{[]string{"keylength=10"}, "need 23; shorten keyprefix or set keylength=23"},
		{[]string{"keylength=17", "keyformat=hex"}, "need 20"},
		{[]string{"ttl=60"}, "needs tikv.apiversion=V1TTL or V2"},
		{[]string{"tikv.keyspace=a"}, "needs tikv.apiversion=V2"},
		{[]string{"tikv.cert=c.pem", "tikv.ca=ca.pem"}, "belong together"},
		{[]string{"tikv.ca=ca.pem"}, "needed with tikv.ca"},
		{[]string{"tikv.pd=a:1,https://b:1"}, "https asks for TLS: set tikv.ca"},
		{[]string{"tikv.pd=http://b:1", "tikv.ca=a", "tikv.cert=b", "tikv.key=c"}, "http is without TLS, and tikv.ca is set"},
		{[]string{"catchup=0.5"}, "at least 1"},
		{[]string{"valueformat=raw", "fieldlengthdistribution=uniform"}, "no field boundaries"},
		{[]string{"dataintegrity=true", "integrityformat=go-ycsb", "fieldlengthdistribution=uniform"}, "need fieldlengthdistribution=constant"},
		{[]string{"dataintegrity=true", "fieldlength=0"}, "cannot carry a checksum"},
		{[]string{"seed=-1"}, "must be a whole number from 0"},
	}
	for _, test := range tests {
		_, err := Parse(pairs(t, test.text...))
		if err == nil {
			t.Errorf("%v is taken", test.text)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %q, want %q", test.text, err, test.want)
		}
		if n := strings.Count(err.Error(), "\n"); n > 0 {
			t.Errorf("%v: %d errors instead of one:\n%v", test.text, n+1, err)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%v: %T", test.text, err)
		}
	}
}

// Counts, rates and times as people write them.
func TestMagnitudes(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "recordcount=1.5m", "operationcount=2G", "threadcount=1k", "target=20k", "maxexecutiontime=1d12h", "warmuptime=10m", "tikv.timeout=0.5d")
	if s.Records != 1_500_000 || s.Operations != 2_000_000_000 || s.Threads != 1000 || s.Target != 20_000 ||
		s.Duration != 36*time.Hour || s.Warmup != 10*time.Minute || s.TiKV.Timeout != 12*time.Hour {
		t.Errorf("%+v", s)
	}
	s = mustParse(t, "target=1k@1d,1k..0.05m@10m")
	if want := []Stage{{1000, 1000, 24 * time.Hour}, {1000, 50_000, 10 * time.Minute}}; !slices.Equal(s.Stages, want) {
		t.Errorf("%+v", s.Stages)
	}
	for text, want := range map[string]string{
		"20k": "20000", "1.5M": "1500000", "0.25k": "0250", "1.2345k": "1234.5", "2g": "2000000000",
		"k": "k", ".5k": ".5k", "5.k": "5.k", "1e3k": "1e3k", "-1k": "-1k", "": "", "10": "10",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	source, err := ReadSource("workload file w.properties", "w.properties",
		[]byte("# mine\n\ntarget=100q\nthreads=5\nrecordcount = 1e6\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(source)
	want := "w.properties:3: target=100q: is not a number\n" +
		"w.properties:4: threads=5: write threadcount\n" +
		"w.properties:5: recordcount=1e6: is not a whole number; write 1000000"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_, err = Parse(pairs(t, "recordcount=5", "insertstart=9", "readproportion=0", "updateproportion=0", "maxscanlength=3", "minscanlength=7"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got\n%v", err)
	}
}

// bank are the properties of the workload bank, with one more.
func bank(more string) []string {
	return []string{"tikv.type=txn", "valueformat=balance", "recordcount=10", "fieldcount=1", "fieldlength=8", "readproportion=0", "updateproportion=1", more}
}

// tikv.type=txn chooses the driver, and what travels to the workers means the same there.
func TestTransactions(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "tikv.type=TXN", "tikv.one_pc=false", "txn.mode=pessimistic", "txn.lockwait=50ms", "txn.retries=3", "txn.backoff=500us", "txn.replicaread=mixed", "txn.priority=high",
		"txn.isolation=RC", "txn.staleness=3s")
	want := Transactions{Mode: Pessimistic, Retries: 3, Backoff: 500 * time.Microsecond, LockWait: 50 * time.Millisecond, AsyncCommit: true, Priority: High, Replicas: Mixed,
		Isolation: RC, Staleness: 3 * time.Second}
	if s.Driver != TxnKV || s.TiKV.API != TxnAPI || s.Txn != want {
		t.Errorf("driver %s, %+v", s.Driver, s.Txn)
	}
	again, err := ParseMap(s.Properties())
	if err != nil || again.Driver != TxnKV || again.Txn != want {
		t.Errorf("sent: %+v, %v", again, err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "recordcount=5", "threadcount=2", "measurementtype=hdrhistogram", "exportfile=x", "tikv.async_commit=true",
		"mysql.host=h", "maxscanrate=0", "measurement.trackjvm=false", "bolt.path=x", "es.urls=x", "tidb.instances=1", "db.url=x", "db=tikv", "workload=com.yahoo.ycsb.workloads.CoreWorkload", "tikv.type=raw")
	if len(s.Warnings) != 9 {
		t.Errorf("%q", s.Warnings)
	}
	s = mustParse(t, "dotransactions=false", "recordcount=5", "maxexecutiontime=180", "operationcount=7", "warmuptime=3")
	if s.Duration != 0 || s.Operations != 0 || s.Warmup != 0 || len(s.Warnings) != 2 {
		t.Errorf("%+v %q", s, s.Warnings)
	}
	// Who leaves the records open is warned by whoever knows which they are; the others here.
	for text, open := range map[string]bool{"": true, "verify=scan": true, "recordcount=1000": false, "insertcount=9": false, "insertstart=9": false, "dotransactions=false": false} {
		s := mustParse(t, "threadcount=2", cmp.Or(text, "operationcount=1"))
		if warned := len(s.Warnings) > 0; s.RecordsOpen() != open || warned != (!open && text != "recordcount=1000") {
			t.Errorf("%q: open %v, warnings %q", text, s.RecordsOpen(), s.Warnings)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"NUM_THREADS": "800", "NUM_CLIENTS": "15", "TARGET_IOPS": "100", "BATCH_SIZE": "20", "BATCH_WAIT": "10ms",
		"BATCH_WAIT_MAX": "64", "BENCH_TYPE": "mixed", "RUNTIME": "20m", "TOTAL_KEYS": "10000000000",
	}
	for _, name := range Variables() {
		if vars[name] == "" {
			t.Errorf("%s is not tested", name)
		}
	}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	env, err := EnvSource(lookup)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(env)
	if err != nil {
		t.Fatal(err)
	}
	if s.Threads != 800 || s.Clients != 15 || s.Target != 100 || s.Batch != 20 || s.TiKV.BatchWaitTime != 10*time.Millisecond ||
		s.TiKV.BatchWaitSize != 64 || s.StreamOpts.Linger != 10*time.Millisecond || s.StreamOpts.MaxBatch != 64 ||
		s.Duration != 20*time.Minute || s.Records != 10_000_000_000 ||
		s.Proportions != (Proportions{Read: 0.5, Update: 0.5}) {
		t.Errorf("%+v", s)
	}
	vars = map[string]string{"RUNTIME": "300", "BENCH_TYPE": "update"}
	if env, err = EnvSource(lookup); err != nil {
		t.Fatal(err)
	}
	if s, err = Parse(env); err != nil || s.Duration != 300*time.Second || s.Proportions != (Proportions{Update: 1}) {
		t.Errorf("%+v, %v", s, err)
	}
	vars = map[string]string{"BENCH_TYPE": "delete", "NUM_THREADS": ""}
	if _, err = EnvSource(lookup); err == nil || !strings.Contains(err.Error(), "BENCH_TYPE (environment)") {
		t.Errorf("error %v", err)
	}
	vars = map[string]string{"NUM_THREADS": "many"}
	if env, err = EnvSource(lookup); err != nil {
		t.Fatal(err)
	}
	if _, err = Parse(env); err == nil || err.Error() != "NUM_THREADS (environment): threadcount=many: is not a whole number" {
		t.Errorf("error %v", err)
	}
}

// TestDurationOfTheCommandLine: a file's operationcount does not end a run whose user
// says on the command line how long it lasts.
func TestDurationOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, line string
		count      int64
		length     time.Duration
		warned     bool
	}{
		{"operationcount=1000", "maxexecutiontime=60", 0, time.Minute, true},
		{"operationcount=1000\nmaxexecutiontime=30", "", 1000, 30 * time.Second, false},
		{"operationcount=1000\nmaxexecutiontime=30", "maxexecutiontime=60", 0, time.Minute, true},
		{"operationcount=1000", "", 1000, 0, false},
		{"maxexecutiontime=30", "operationcount=1000", 1000, 30 * time.Second, false},
		{"operationcount=1000", "operationcount=500 maxexecutiontime=60", 500, time.Minute, false},
		{"operationcount=0", "maxexecutiontime=60", 0, time.Minute, false},
	} {
		file, err := ReadSource("f", "f", []byte(tt.file))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(file, pairs(t, append(strings.Fields(tt.line), "recordcount=5", "threadcount=2")...))
		if err != nil {
			t.Fatal(err)
		}
		if s.Operations != tt.count || s.Duration != tt.length || (len(s.Warnings) > 0) != tt.warned {
			t.Errorf("%q, then %q: %d operations, %v, %q", tt.file, tt.line, s.Operations, s.Duration, s.Warnings)
		}
		if tt.warned && !strings.HasPrefix(s.Warnings[0], "f:1: operationcount=1000 does not end the run, ") {
			t.Errorf("said %q", s.Warnings)
		}
	}
}

func TestPropertiesFile(t *testing.T) {
	t.Parallel()
	text := "# comment\r\n! another\r\n\r\n" +
		"threadcount=500 \r\n" + // go-ycsb's template has this blank
		"  table : my\\u0074able\n" +
		"fieldcount 3\n" +
		"keyprefix=a\\\n    b\\\n    c\n" +
		"recordcount=7\n" +
		"recordcount=8" // a later one wins
	source, err := ReadSource("f", "f", []byte("\ufeff"+text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Pair{
		{"threadcount", "500", "f:4"}, {"table", "mytable", "f:5"}, {"fieldcount", "3", "f:6"},
		{"keyprefix", "abc", "f:7"}, {"recordcount", "7", "f:10"}, {"recordcount", "8", "f:11"},
	}
	if !slices.Equal(source.Pairs, want) {
		t.Errorf("got  %q\nwant %q", source.Pairs, want)
	}
	for text, want := range map[string]string{
		"target=1\ntable=${HOME}":                      "f:2: table=${HOME}: kvbench does not expand",
		"a=\\uZZZZ":                                    "f:1: a=\\uZZZZ: is not a property",
		"\ntable=\\ud83d\\ude00":                       "f:2: table=\\ud83d\\ude00: has half a character",
		"target=1\ntable=\xe9t\xe9":                    "f:2: not UTF-8 text",
		"\x7fELF\x02\x01\x00\x00\n\xff\xfe\na=1\n\x00": "f:1: not UTF-8 text",
		"t\x00a\x00b\x00l\x00e\x00":                    "f:1: not UTF-8 text: is it a properties file? If so, save it as UTF-8",
	} {
		if _, err := ReadSource("f", "f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestFileSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "w.properties")
	if err := os.WriteFile(path, []byte("target=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := FileSource(path)
	if err != nil || len(source.Pairs) != 1 || source.Pairs[0].Where != "w.properties:1" {
		t.Errorf("%+v, %v", source, err)
	}
	if source, err = FileSource("a"); err != nil || len(source.Pairs) == 0 || !strings.HasPrefix(source.Pairs[0].Where, "workload a:") {
		t.Errorf("%+v, %v", source, err)
	}
	for path, want := range map[string]string{
		"nosuch":                           "there is no workload named nosuch",
		filepath.Join(dir, "x.properties"): "does not exist",
		dir:                                "workload file",
	} {
		if _, err := FileSource(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

func TestHistogramFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hist.txt")
	if err := os.WriteFile(path, []byte("BlockSize\t10\n0\t5\n3\t7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustParse(t, "fieldlengthdistribution=histogram", "fieldlengthhistogram="+path)
	if h := s.Row.LengthHistogram; h.BlockSize != 10 || !slices.Equal(h.Counts, []int64{5, 0, 0, 7}) || h.Max() != 40 {
		t.Errorf("%+v", h)
	}
	if got := s.Properties()["fieldlengthhistogram"]; got != "10:5,0,0,7" {
		t.Errorf("travels as %s", got)
	}
	for _, bad := range []string{"", "x", "BlockSize", "BlockSize\t0\n0\t1", "BlockSize\t10\n0", "BlockSize\t10\n-1\t2", "BlockSize\t10\n99999999\t2", "BlockSize\t10\n0\tx"} {
		if _, err := parseHistogramFile(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Every workload that comes with kvbench parses without a word of warning, alone.
func TestEmbeddedWorkloads(t *testing.T) {
	t.Parallel()
	distribution := map[string]string{"a": Zipfian, "b": Zipfian, "c": Zipfian, "d": Latest, "e": Zipfian, "f": Zipfian,
		"go-ycsb-a": Uniform, "go-ycsb-d": Latest, "go-ycsb-e": Uniform, "tikvbench": Uniform}
	for _, name := range workloads.List() {
		source, err := FileSource(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(source, pairs(t, "recordcount=5", "threadcount=1"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.Warnings) > 0 {
			t.Errorf("%s: %q", name, s.Warnings)
		}
		if want, ok := distribution[name]; ok && s.Distribution != want {
			t.Errorf("%s is %s", name, s.Distribution)
		}
		if sum := s.Proportions.Sum(); sum != 1 {
			t.Errorf("%s: proportions add up to %v", name, sum)
		}
	}
}

// The template that go-ycsb ships, and the names of YCSB's, as users bring them.
func TestBroughtFiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"workload=core\nrecordcount=1000000\noperationcount=3000000\nthreadcount=500 \ninsertstart=0\nfieldcount=10\nfieldlength=100\n" +
			"readallfields=true\nwriteallfields=false\nfieldlengthdistribution=constant\nreadproportion=0.95\nupdateproportion=0.05\n" +
			"insertproportion=0\nreadmodifywriteproportion=0\nscanproportion=0\nmaxscanlength=1000\nscanlengthdistribution=uniform\n" +
			"insertorder=hashed\nrequestdistribution=zipfian\nhotspotdatafraction=0.2\nhotspotopnfraction=0.8\ntable=usertable\n" +
			"measurementtype=histogram\nhistogram.buckets=1000\ntimeseries.granularity=1000\n",
		"workload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\noperationcount=1000\nreadallfields=true\nmaxexecutiontime=60\n" +
			"measurementtype=hdrhistogram\nmeasurement.interval=both\nhdrhistogram.percentiles=50,95,99\nstatus.interval=1\nexporter=x\n",
	} {
		source, err := ReadSource("w", "w", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if s.Threads == 500 != strings.Contains(text, "500") {
			t.Errorf("threads %d", s.Threads)
		}
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	load := mustParse(t, "dotransactions=false", "batch.size=100", "recordcount=10", "fieldcount=3")
	run := mustParse(t, "target=5", "recordcount=10", "fieldcount=3", "compressibility=0.5")
	if !maps.Equal(load.Shape(), run.Shape()) {
		t.Errorf("%v differs from %v", load.Shape(), run.Shape())
	}
	for _, change := range []string{"fieldcount=4", "keyhash=mix", "table=t", "valueformat=ycsb", "dataintegrity=true"} {
		if maps.Equal(load.Shape(), mustParse(t, "fieldcount=3", change).Shape()) {
			t.Errorf("%s does not change the shape", change)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"fieldcuont": "fieldcount", "tikv.pdd": "tikv.pd", "requestdistrubution": "requestdistribution", "xyzzy": "", "": "",
	} {
		if got := nearest(name); got != want {
			t.Errorf("nearest(%q) is %q, want %q", name, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range workloads.List() {
		data, err := workloads.Open(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("target=1..2@3s,4\ntikv.batchwait=1h\nfieldlengthhistogram=1:2,3\n")
	f.Add("a\\\n\\\\\\\nb=c\\u00")
	f.Fuzz(func(t *testing.T, text string) {
		source, err := ReadSource("f", "f", []byte(text))
		if err != nil {
			return
		}
		lines := strings.Count(strings.ReplaceAll(text, "\r", "\n"), "\n") + 1
		for _, p := range source.Pairs {
			var line int
			if _, err := fmt.Sscanf(p.Where, "f:%d", &line); err != nil || line < 1 || line > lines {
				t.Errorf("%q: %+v", text, p)
			}
			if p.Key == "fieldlengthhistogram" && !strings.HasPrefix(p.Value, "1:") {
				return // no reading of files that a fuzzer thinks of
			}
		}
		s, err := Parse(source)
		if err != nil {
			return
		}
		again, err := ParseMap(s.Properties())
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if !reflect.DeepEqual(bare(s), bare(again)) {
			t.Errorf("%q:\n%+v\nbecomes\n%+v", text, bare(s), bare(again))
		}
	})
}
