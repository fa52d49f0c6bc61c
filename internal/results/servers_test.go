// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// What stores said is read back as it was written; a worker that has asked none has no file of it.
func TestServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	j, err := CreateJournal(dir, Worker{Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range Servers(dir) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before the first: %v", err)
		}
	}
	want := []ServerSample{
		{S: 0.5, Store: "10.0.1.1:20160", Figures: map[string]float64{"leaders": 3, "cpu_seconds_total": 0.25}},
		{S: 0.6, Store: "10.0.1.2:20160", Missing: "connection refused"},
	}
	for _, s := range want {
		if err := j.WriteServer(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(End{Cause: ByDuration}); err != nil {
		t.Fatal(err)
	}
	var got []ServerSample
	for s, err := range Servers(dir) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, s)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	info, err := os.Stat(filepath.Join(dir, ServersFile))
	w, err2 := ReadWorker(dir)
	if err != nil || err2 != nil || w.Bytes[ServersFile] != info.Size() {
		t.Errorf("its length is not recorded: %v, %v, %v", w, err, err2)
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"s":1,"store":"a:1","figures":{"leaders":3,"x":-1}}`))
	f.Add([]byte(`{"s":1e300,"store":"a:1"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseServer(line)
		if err != nil {
			return
		}
		for name, v := range s.Figures {
			if !(v >= 0 && v <= maxFigure) {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}
