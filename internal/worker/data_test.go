// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// load is a Prepare of a load of so many records.
func load(id string, records string, properties map[string]string) *workerpb.PrepareRequest {
	req := request(id, properties)
	req.Properties["dotransactions"], req.Properties["recordcount"] = "false", records
	delete(req.Properties, "maxexecutiontime")
	return req
}

// TestFailedInsertsAreMadeUpFor: a load says which it missed, and the next one, by
// other lanes with other batches, inserts those and nothing else.
func TestFailedInsertsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Refuse: func(key []byte) bool { return strings.HasSuffix(string(key), "7") }}
	w := newWorker(t, db, func(c *Config) { c.Lanes = 3 })
	prepare(t, w, load("first", "2000", nil))
	start(t, w, "first")
	if s := finished(t, w, "first"); s.GetEnd() != workerpb.End_END_FAILED || !strings.Contains(s.GetError(), "could not be inserted: run kvbench load again") {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
	there := db.Keys()
	if there < 1000 || there == 2000 {
		t.Fatalf("%d keys are there", there)
	}
	if _, err := w.Prepare(t.Context(), request("run", map[string]string{"recordcount": "2000"})); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("a run on half a load: %v", err)
	}
	db.Refuse = nil
	other := newWorker(t, db, func(c *Config) { c.Lanes = 2 })
	resp, err := other.Prepare(t.Context(), load("second", "2000", nil))
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetPresent() != int64(there) || resp.GetComplete() {
		t.Errorf("%d records are said to be there, %d are; complete: %v", resp.GetPresent(), there, resp.GetComplete())
	}
	start(t, other, "second")
	if s := finished(t, other, "second"); s.GetEnd() != workerpb.End_END_COMPLETE {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
	if db.Keys() != 2000 || db.Puts.Load() != 2000 {
		t.Errorf("%d keys after %d successful inserts", db.Keys(), db.Puts.Load())
	}
	resp, err = w.Prepare(t.Context(), load("third", "2000", nil))
	if err != nil || !resp.GetComplete() {
		t.Errorf("the third load: complete %v, %v", resp.GetComplete(), err)
	}
	if _, err := w.Stop(t.Context(), &workerpb.StopRequest{}); err != nil {
		t.Error(err)
	}
	db.Change(func(rows map[string][]byte) {
		for key := range rows {
			if strings.Contains(key, ":") {
				delete(rows, key)
			}
		}
	})
	if _, err := w.Prepare(t.Context(), load("fourth", "2000", nil)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "reload=true") {
		t.Errorf("a load of what is remembered and gone: %v", err)
	}
}

// TestRecall: a worker that is only asked says what was loaded, whatever the question
// looks like, and is free again.
func TestRecall(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	w := newWorker(t, db, nil)
	recall := func(want *workerpb.Range) {
		t.Helper()
		req := request("asking", map[string]string{"fieldcount": "3"})
		req.RecallOnly = true
		resp, err := w.Prepare(t.Context(), req)
		if err != nil || !proto.Equal(resp.GetLoaded(), want) {
			t.Errorf("loaded %v, want %v; %v", resp.GetLoaded(), want, err)
		}
		if _, err := w.Stop(t.Context(), &workerpb.StopRequest{RunId: "asking"}); err != nil {
			t.Error(err)
		}
	}
	recall(nil)
	prepare(t, w, load("load", "70", map[string]string{"insertstart": "20"}))
	start(t, w, "load")
	finished(t, w, "load")
	recall(&workerpb.Range{Start: 20, Count: 50})
	if list, err := w.ListRuns(t.Context(), nil); err != nil || len(list.GetRuns()) != 1 {
		t.Errorf("a question is kept: %v, %v", list, err)
	}
}

func state(t *testing.T, w *Worker, id string, want workerpb.State) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for s := statusOf(t, w, id).GetRun().GetState(); s != want; s = statusOf(t, w, id).GetRun().GetState() {
		if time.Now().After(deadline) {
			t.Fatalf("state %v, want %v", s, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var followed = map[string]string{
	"readproportion": "0", "updateproportion": "1", "updatemissing": "true", "operationcount": "500", "maxexecutiontime": "0", "verifywrites": "true",
}

// readBack gathers what a worker answers.
type readBack struct {
	grpc.ServerStreamingServer[workerpb.ReadBackResponse]
	ctx          context.Context
	keys, unread []uint64
	mismatches   []*workerpb.Mismatch
}

func (r *readBack) Context() context.Context { return r.ctx }

func (r *readBack) Send(piece *workerpb.ReadBackResponse) error {
	r.keys = append(r.keys, piece.GetKeys()...)
	r.unread = append(r.unread, piece.GetUnread()...)
	r.mismatches = append(r.mismatches, piece.GetMismatches()...)
	return nil
}

// TestReadBack: what was written is compared with what is there, for as long as the
// run is not let go.
func TestReadBack(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	w := newWorker(t, db, nil)
	readBack := func() (all readBack, err error) {
		for part := range int32(ledger.Parts) {
			all.ctx = t.Context()
			if err := w.ReadBack(&workerpb.ReadBackRequest{RunId: "r", Part: part}, &all); err != nil {
				return all, err
			}
		}
		return all, nil
	}
	many := maps.Clone(followed)
	many["recordcount"], many["operationcount"] = "3000", "6000"
	prepare(t, w, request("r", many))
	if _, err := readBack(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before the start: %v", err)
	}
	start(t, w, "r")
	state(t, w, "r", workerpb.State_STATE_WRITTEN)
	all, err := readBack()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.keys) != db.Keys() || len(all.mismatches)+len(all.unread) != 0 {
		t.Errorf("%d keys of %d, %d unread, mismatches %v", len(all.keys), db.Keys(), len(all.unread), all.mismatches)
	}
	err = w.ReadBack(&workerpb.ReadBackRequest{RunId: "r", Part: ledger.Parts}, &all)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a part that is none: %v", err)
	}
	var gone, old string
	db.Change(func(rows map[string][]byte) {
		for key := range rows {
			if !strings.Contains(key, ":") {
				continue
			}
			if gone == "" {
				gone = key
			} else if old == "" {
				old = key
			}
		}
		delete(rows, gone)
		rows[old] = []byte("older")
	})
	spoilt, err := readBack()
	if err != nil || len(spoilt.mismatches) != 2 || len(spoilt.keys) != len(all.keys) {
		t.Fatalf("%v, %v", spoilt, err)
	}
	for _, d := range spoilt.mismatches {
		key := string(d.GetKey())
		if key != gone && key != old || d.GetGone() != (key == gone) || d.GetEndNanos() <= 0 || d.GetStartNanos() > d.GetEndNanos() {
			t.Errorf("mismatch %v", d)
		}
	}
	answers, err := w.Wrote(t.Context(), &workerpb.WroteRequest{RunId: "r", Mismatches: append(spoilt.mismatches,
		&workerpb.Mismatch{Key: []byte("usertable:nobody's"), Found: 1})})
	if err != nil || len(answers.GetAnswers()) != 3 {
		t.Fatalf("%v, %v", answers, err)
	}
	for _, a := range answers.GetAnswers() {
		if a.GetMine() || !a.GetFollowed() {
			t.Errorf("answer %v", a)
		}
	}
	db.Change(func(rows map[string][]byte) {
		for key := range rows {
			rows[key] = []byte("older")
		}
	})
	if every, err := readBack(); err != nil || len(every.mismatches) != len(all.keys) || len(every.mismatches) < 2000 {
		t.Errorf("%d of %d keys differ, %v", len(every.mismatches), len(all.keys), err)
	}
	if _, err := w.Stop(t.Context(), &workerpb.StopRequest{RunId: "r"}); err != nil {
		t.Fatal(err)
	}
	if s := finished(t, w, "r"); s.GetEnd() != workerpb.End_END_COMPLETE {
		t.Errorf("end %v", s.GetEnd())
	}
	if _, err := readBack(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("after the end: %v", err)
	}
}

// TestNobodyReadsBack: a run that nobody reads back ends with its lease.
func TestNobodyReadsBack(t *testing.T) {
	t.Parallel()
	w := newWorker(t, &memory.DB{}, nil)
	req := request("r", followed)
	req.LeaseNanos = int64(300 * time.Millisecond)
	prepare(t, w, req)
	start(t, w, "r")
	if s := finished(t, w, "r"); s.GetEnd() != workerpb.End_END_COMPLETE || s.GetError() != "" {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
}

// TestValuesThatRepeat: where a lost write cannot be seen, that is said before the start.
func TestValuesThatRepeat(t *testing.T) {
	t.Parallel()
	for length, want := range map[string]string{"10": "", "7": "as few as 7 random letters"} {
		w := newWorker(t, &memory.DB{}, nil)
		properties := maps.Clone(followed)
		properties["fieldlength"] = length
		found, err := w.Prepare(t.Context(), request("r", properties))
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(found.GetWarnings(), "\n")
		if strings.Contains(said, "verifywrites") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("fields of %s bytes: %q, want %q", length, said, want)
		}
	}
}
