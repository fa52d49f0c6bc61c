// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The command lines of go-ycsb (load tikv -P FILE -p tikv.pd=…) and of YCSB (load tikv -s -P FILE -threads N)
// mean here what they mean there, or are refused with what to write.

// tikvAlone takes the name of the database that the two ask for, which is not needed here.
func tikvAlone(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 1 && strings.EqualFold(args[0], "tikv") {
		return nil
	}
	return fmt.Errorf("%s: kvbench drives TiKV: write kvbench %s tikv, or just kvbench %[2]s; a workload is named with -w, a property file with -P",
		strings.Join(args, " "), cmd.Name())
}

// propertyFile is the value of -P: as -w, but always a file.
type propertyFile struct{ pflag.Value }

func (p propertyFile) Type() string { return "file" }

func (p propertyFile) Set(path string) error {
	if path == "" {
		return fmt.Errorf("the name of the file is empty")
	}
	if !strings.ContainsAny(path, `/\`) {
		path = "./" + path // not the built-in workload of that name
	}
	return p.Value.Set(path)
}

// addYCSBFlags adds what the two call otherwise. It comes after the flags that it leads to.
func addYCSBFlags(f *pflag.FlagSet) {
	f.VarP(propertyFile{f.Lookup("workload").Value}, "property_file", "P", "property `file`, as -w; go-ycsb's and YCSB's name for it")
	f.Var(f.Lookup("property").Value, "prop", "go-ycsb's name for --property")
	f.Int("interval", 10, "go-ycsb's interval between summaries; here there is one each second")
	f.BoolP("status", "s", true, "YCSB's wish to see progress; here it is always shown (see --quiet)")
	for _, name := range []string{"prop", "interval", "status"} {
		f.Lookup(name).Hidden = true
	}
}

// singleDash finds what YCSB writes with one dash and kvbench with two (-threads 8), and says so.
func singleDash(f *pflag.FlagSet, err error) string {
	_, written, ok := strings.Cut(err.Error(), " in -")
	name, _, _ := strings.Cut(written, "=")
	switch {
	case !ok || len(name) < 2:
		return ""
	case name == "db":
		return "leave out -db: kvbench drives TiKV"
	case f.Lookup(name) != nil:
		return fmt.Sprintf("write --%s", name)
	}
	return ""
}
