// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/spec"
)

// specFlags are the flags that say what load to make. Each stands for a property.
type specFlags struct {
	workloads  []string
	properties []string
	flags      *pflag.FlagSet
	values     map[string]*string // by flag name
	noServers  bool               // leave the stores' own figures alone
	varied     map[string]bool    // flags of a study that have several values, of which each run has one
}

// propertyFlags are flags that are shorter to write than their properties.
var propertyFlags = []struct{ flag, property, doc string }{
	{"pd", "tikv.pd", "PD `addresses`, host:port separated by commas"},
	{"api", "tikv.type", "raw, or txn for transactions"},
	{"driver", "driver", "rawkv: client-go, as applications use it; stream: a fraction of its cost"},
	{"threads", "threadcount", "calls in flight per worker (NUM_THREADS)"},
	{"target", "target", "operations a second over the whole fleet; 0 is unpaced (TARGET_IOPS)"},
	{"batch", "batch.size", "operations in one client call (BATCH_SIZE)"},
	{"duration", "maxexecutiontime", "how long to measure, as in 60s or 20m (RUNTIME)"},
	{"warmup", "warmuptime", "how long to run the same load before measuring"},
	{"operations", "operationcount", "end after so many operations"},
	{"clients", "clients", "workers to use: the first so many; with fewer nothing starts; 0: all (NUM_CLIENTS)"},
	{"seed", "seed", "seed of everything random"},
	{"server-metrics", "tikv.servermetrics", "how often one worker reads the stores' own figures (/metrics), as in 5s, the default"},
	{"arrival", "arrival", "how a paced load is spaced: uniform or poisson"},
}

func addSpecFlags(f *pflag.FlagSet) *specFlags {
	s := &specFlags{flags: f, values: map[string]*string{}}
	f.StringArrayVarP(&s.workloads, "workload", "w", nil, "workload `name` (kvbench workloads) or property file; a later one wins")
	f.StringArrayVarP(&s.properties, "property", "p", nil, "`key=value`; wins over files and environment")
	f.BoolVar(&s.noServers, "no-server-metrics", false, "leave the stores' own figures alone")
	for _, p := range propertyFlags {
		s.values[p.flag] = f.String(p.flag, "", p.doc)
	}
	return s
}

// addClusterFlags adds those alone that say which cluster, and how it is reached.
func addClusterFlags(f *pflag.FlagSet) *specFlags {
	s := &specFlags{flags: f, values: map[string]*string{}}
	f.StringArrayVarP(&s.workloads, "workload", "w", nil, "property `file` that names the cluster (tikv.…), as a workload's does; a later one wins")
	f.StringArrayVarP(&s.properties, "property", "p", nil, "`key=value`, as in tikv.apiversion=V2 or tikv.ca=ca.pem; wins over files")
	for _, p := range propertyFlags {
		if p.flag == "pd" {
			s.values[p.flag] = f.String(p.flag, "", p.doc)
		}
	}
	return s
}

// parse reads all layers: files, then environment, then -p, then flags. extra wins over all.
func (s *specFlags) parse(env func(string) (string, bool), extra ...spec.Pair) (*spec.Spec, error) {
	return s.parseWith(env, s.workloads, nil, extra...)
}

// parseWith reads all layers, with these files in the place of the flags', and more properties between environment and -p.
func (s *specFlags) parseWith(env func(string) (string, bool), files []string, more []spec.Pair, extra ...spec.Pair) (*spec.Spec, error) {
	var sources []spec.Source
	var errs []error
	for _, w := range files {
		source, err := spec.FileSource(w)
		sources, errs = append(sources, source), append(errs, err)
	}
	source, err := spec.EnvSource(env)
	sources, errs = append(sources, source), append(errs, err)

	flags, err := s.given()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return parseSources(append(sources, spec.Source{Name: "study", Pairs: more}, spec.Source{Name: "flags", Pairs: flags}, spec.Source{Name: "verb", Pairs: extra})...)
}

// parseSources reads layers, and makes a load fast where they leave that open.
func parseSources(sources ...spec.Source) (*spec.Spec, error) {
	sources, err := spec.WithCourses(sources...)
	if err != nil {
		return nil, err
	}
	parsed, err := spec.Parse(sources...)
	if err != nil {
		return nil, err
	}
	pairs, said := fastLoad(parsed)
	if len(pairs) == 0 {
		return parsed, nil
	}
	// As the lowest layer, so that all is checked with them.
	if parsed, err = spec.Parse(append([]spec.Source{{Name: "load", Pairs: pairs}}, sources...)...); err == nil {
		parsed.Warnings = append(parsed.Warnings, said)
	}
	return parsed, err
}

// given returns the properties of -p and, after them, of flags.
func (s *specFlags) given() (pairs []spec.Pair, err error) {
	var errs []error
	for _, p := range s.properties {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("-p %s: write -p key=value", p))
			continue
		}
		pairs = append(pairs, spec.Pair{Key: key, Value: value, Where: "-p"})
	}
	for _, p := range propertyFlags {
		if s.values[p.flag] != nil && s.flags.Changed(p.flag) && !s.varied[p.flag] {
			pairs = append(pairs, spec.Pair{Key: p.property, Value: *s.values[p.flag], Where: "--" + p.flag})
		}
	}
	if s.noServers {
		pairs = append(pairs, spec.Pair{Key: "tikv.servermetrics", Value: "0s", Where: "--no-server-metrics"})
	}
	return pairs, errors.Join(errs...)
}
