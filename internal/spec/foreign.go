// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"slices"
	"strings"
)

// foreign judges a property that is not ours: some do nothing here and are
// accepted with a warning (or without one), some ask for what kvbench does under
// another name, and the rest are mistakes.
func foreign(p Pair) (warning string, err error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", &Error{p.Where, p.Key, p.Value, fmt.Sprintf(format, args...)}
	}
	switch p.Key {
	case "":
		return refuse("the property has no name")
	case "workload":
		if slices.Contains([]string{"core", "site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"}, p.Value) {
			return "", nil
		}
		return refuse("kvbench runs the core workload only: write workload=core or leave it out")
	case "db":
		if strings.Contains(strings.ToLower(p.Value), "tikv") {
			return "", nil
		}
		return p.Where + ": db is ignored: kvbench drives TiKV", nil
	case "command":
		return p.Where + ": command is ignored: kvbench load and kvbench run say it", nil
	case "readallfieldsbyname":
		return p.Where + ": readallfieldsbyname is ignored: whole rows are read", nil
	}
	if neutral, ok := neutrals[p.Key]; ok && p.Value == neutral {
		return fmt.Sprintf("%s: %s=%s is ignored: kvbench has no such thing", p.Where, p.Key, p.Value), nil
	}
	for _, v := range variables {
		if v.name == p.Key {
			return refuse("is a variable of the environment; as a property write %s", strings.Join(v.stands, " or "))
		}
	}
	if use, ok := renamed[p.Key]; ok {
		return refuse("%s", use)
	}
	if why, ok := harmless[p.Key]; ok {
		return fmt.Sprintf("%s: %s is ignored: %s", p.Where, p.Key, why), nil
	}
	if db, _, ok := strings.Cut(p.Key, "."); ok && slices.Contains(otherDatabases, db) {
		return fmt.Sprintf("%s: %s is ignored: it is for another database", p.Where, p.Key), nil
	}
	if near := nearest(p.Key); near != "" {
		return refuse("unknown property; did you mean %s?", near)
	}
	return refuse("unknown property; kvbench workloads properties lists those that there are")
}

// renamed are names that ask for something kvbench says otherwise.
var renamed = map[string]string{
	"threads":               "write threadcount",
	"batchsize":             "write batch.size for operations per call, tikv.batchsize for requests per message",
	"duration":              "write maxexecutiontime",
	"runtime":               "write maxexecutiontime",
	"operations":            "write operationcount",
	"warmup":                "write warmuptime",
	"batch":                 "write batch.size",
	"pd":                    "write tikv.pd",
	"workers":               "is a flag: --workers",
	"local":                 "is a flag: --local",
	"out":                   "is a flag: --out",
	"output":                "is a flag: --output",
	"format":                "is a flag: --format",
	"cores":                 "is a flag: --cores",
	"workload.class":        "write workload=core or leave it out",
	"cas":                   "write updatemode=compare-and-swap",
	"requestdistrib":        "write requestdistribution",
	"readmodifywrite":       "write readmodifywriteproportion",
	"tikv.batchmaxwaittime": "write tikv.batchwait",
}

// neutrals are names of other tools for what kvbench does not have, each with the value that asks for nothing.
var neutrals = map[string]string{
	"maxscanrate": "0",
	"cas":         "false",
}

// harmless are properties of YCSB and go-ycsb that change how they print or
// store, or that do nothing for the raw API; a file with them still means the same load.
var harmless = map[string]string{
	"measurementtype":                        "every run keeps HdrHistograms; kvbench analyze --format chooses the output",
	"measurement.trackjvm":                   "there is no JVM; the report shows CPU and garbage collection of each worker",
	"measurement.interval":                   "service and response time are both always recorded, every second",
	"measurement.output_file":                "results go to the results directory (--out)",
	"measurement.raw.output_file":            "results go to the results directory (--out)",
	"measurement.histogram.verbose":          "kvbench analyze prints what it has",
	"histogram.buckets":                      "histograms reach from 1 µs to 1 h at 3 digits",
	"histogram.percentiles.export":           "kvbench analyze prints the percentiles",
	"histogram.percentiles.export.filepath":  "results go to the results directory (--out)",
	"hdrhistogram.percentiles":               "kvbench analyze prints the percentiles",
	"hdrhistogram.fileoutput":                "interval logs are always written",
	"hdrhistogram.output.path":               "results go to the results directory (--out)",
	"hdrhistogram.max":                       "histograms reach from 1 µs to 1 h at 3 digits",
	"timeseries.granularity":                 "there is an interval for every second",
	"outputstyle":                            "kvbench analyze --format chooses the output",
	"exporter":                               "kvbench analyze --format chooses the output",
	"exportfile":                             "results go to the results directory (--out)",
	"status":                                 "progress is shown every second",
	"status.interval":                        "progress is shown every second",
	"label":                                  "runs are named by their id",
	"silence":                                "errors are counted by class and their first texts kept",
	"verbose":                                "errors are counted by class and their first texts kept",
	"reportlatencyforeacherror":              "errors have their own histograms, by class",
	"latencytrackederrors":                   "errors have their own histograms, by class",
	"debug.pprof":                            "profiles are at the worker's --metrics address, with --pprof",
	"dropdata":                               "kvbench never drops data",
	"spin.sleep":                             "lanes do not sleep per thread",
	"core_workload_insertion_retry_interval": "retries are immediate; the client backs off by itself",
	"core_workload_insertion_keep_going_on_error": "a failed insert is counted and its range is taken up by the next load",
}

// otherDatabases are the prefixes of go-ycsb's and YCSB's other bindings.
var otherDatabases = []string{
	"accumulo", "aerospike", "arangodb", "azure", "azurecosmos", "badger", "basicdb", "bigtable", "bolt", "boltdb", "cassandra", "cb",
	"cockroach", "couchbase", "couchbase2", "crail", "db", "dynamodb", "elastic", "elasticsearch", "es", "etcd", "fdb", "foundationdb",
	"geode", "google", "googlebigtable", "googledatastore", "griddb", "hbase", "hypertable", "ignite", "infinispan", "jdbc", "kudu", "maprdb",
	"memcached", "minio", "mongo", "mongodb", "mysql", "nosqldb", "orientdb", "pebble", "pegasus", "pg", "postgrenosql", "rados", "redis",
	"rest", "riak", "rocksdb", "s3", "scylla", "seaweed", "solr", "spanner", "sqlite", "tablestore", "tarantool", "taskcluster", "taurusdb",
	"tidb", "voltdb", "zookeeper",
}

// nearest returns the known name that is closest to name, or "" when none is close.
func nearest(name string) string {
	best, distance := "", max(2, len(name)/4)+1
	consider := func(candidate string) {
		if d := editDistance(strings.ToLower(name), candidate); d < distance {
			best, distance = candidate, d
		}
	}
	for i := range table {
		consider(table[i].Name)
	}
	return best
}

// editDistance is Levenshtein's: insertions, deletions and replacements of bytes.
// Long names are cut, since they match nothing anyway.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
