// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/servermetrics"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Tend implements [workerpb.WorkerServer].
func (w *Worker) Tend(req *workerpb.TendRequest, stream workerpb.Worker_TendServer) error {
	s, err := spec.ParseMap(req.GetProperties())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := w.beginChore(); err != nil {
		return err
	}
	resp, err := func() (*workerpb.TendResponse, error) {
		defer w.endChore() // before the answer, for whoever has it may go on with a run
		return w.tend(stream.Context(), s, req, func(text string) {
			_ = stream.Send(&workerpb.TendResponse{Progress: text}) // who is gone has ended the context
		})
	}()
	switch {
	case err == nil:
		return stream.Send(resp)
	case errors.As(err, new(refusal)) || exitcode.Of(err) == exitcode.Usage:
		return status.Error(codes.InvalidArgument, err.Error())
	default:
		return status.Error(codes.Unavailable, err.Error())
	}
}

// beginChore takes the worker for a chore, unless it has an active run or another one.
func (w *Worker) beginChore() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return status.Error(codes.FailedPrecondition, "the worker is shutting down")
	case w.run != nil && w.run.active():
		return status.Errorf(codes.FailedPrecondition, "busy with run %s; stop it with: kvbench stop %[1]s", w.run.id)
	case w.tends:
		return status.Error(codes.FailedPrecondition, "busy with the layout of another table")
	}
	w.tends = true
	return nil
}

func (w *Worker) endChore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tends = false
}

// tend opens the database for a chore.
func (w *Worker) tend(ctx context.Context, s *spec.Spec, req *workerpb.TendRequest, say func(string)) (_ *workerpb.TendResponse, err error) {
	opening, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	opened, err := w.cfg.Open(opening, s)
	if err != nil {
		return nil, fmt.Errorf("the cluster at PD %s cannot be opened: %w", strings.Join(s.TiKV.PD, ","), err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	driver, ok := opened.(store.Administered)
	if !ok {
		return nil, refusal{fmt.Errorf("driver %s cannot lay out tables", s.Driver)}
	}
	generator, err := workload.New(s, workload.Place{Workers: 1, Lanes: 1})
	if err != nil {
		return nil, refusal{err}
	}
	c := &chore{spec: s, driver: driver, admin: driver.Admin(), generator: generator, say: say}
	c.first, c.end = generator.KeyRange()
	resp := &workerpb.TendResponse{ClusterId: driver.Cluster().ID}
	switch {
	case req.GetSplit() != nil:
		resp.Done, err = c.split(ctx, int(req.GetSplit().GetRegions()), req.GetSplit().GetForce())
	case req.GetClean() != nil:
		resp.Done, err = c.clean(ctx, req.GetClean().GetReally())
	case req.GetSettle() != nil:
		resp.Done, resp.GaveUp, err = c.settle(ctx, time.Duration(req.GetSettle().GetMostNanos()))
	default:
		err = refusal{errors.New("this worker does not know the chore: use the same kvbench everywhere")}
	}
	return resp, err
}

// chore is work on the range of keys of a table.
type chore struct {
	spec       *spec.Spec
	driver     store.Administered
	admin      store.Admin
	generator  *workload.Generator
	first, end []byte // of the table's keys
	say        func(string)
}

const (
	maxRegions      = 10_000           // that a table is split into
	regionBytes     = 96 << 20         // of a region that is full, if no store tells it: TiKV's default up to 8.3
	regionsPerStore = 4                // at least, so that leaders can be spread
	layoutTime      = 2 * time.Minute  // for splitting and for scattering each
	layoutPause     = time.Second      // between two looks
	deletePause     = 10 * time.Second // between two lines of progress
)

// split splits the table where the load's keys have their quantiles, and before and behind it, and spreads the regions.
func (c *chore) split(ctx context.Context, n int, force bool) (string, error) {
	auto, why := n == 0, ""
	if auto {
		size, told := c.regionSize(ctx)
		n, why = c.suitable(size), fmt.Sprintf("; full regions have %d MiB", size>>20)
		if !told {
			why += ", as no store tells another size"
		}
	}
	if n < 1 || n > maxRegions {
		return "", refusal{fmt.Errorf("%d regions: want 1 to %d", n, maxRegions)}
	}
	inner := workload.SplitKeys(c.spec, n)
	borders := slices.Concat([][]byte{c.first}, inner, [][]byte{c.end})
	regions, err := c.admin.Regions(ctx, c.first, c.end)
	if err != nil {
		return "", err
	}
	missing := lacking(regions, borders)
	if len(lacking(regions, inner)) > 0 && !force {
		key, err := c.admin.FirstKey(ctx, c.first, c.end)
		if err != nil {
			return "", fmt.Errorf("look for rows of table %q: %w", c.spec.Key.Table, err)
		}
		switch holds := fmt.Sprintf("table %q holds rows (the first key is %q), in %s", c.spec.Key.Table, key, layout(regions)); {
		case key != nil && auto:
			return "not split: " + holds + "; --split-force splits it all the same", nil
		case key != nil:
			return "", refusal{fmt.Errorf("%s: it is not split into %d; --split-force splits it all the same, and without --split the load goes on as it is", holds, n)}
		}
	}
	done := "in regions already: "
	if len(missing) > 0 {
		done = "split at quantiles of its keys: "
		if regions, err = c.splitAt(ctx, regions, borders); err != nil {
			return "", err
		}
	}
	if len(missing) > 0 || uneven(regions, len(c.driver.Cluster().Stores)) {
		if regions, err = c.scatter(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("table %q is %s%s%s", c.spec.Key.Table, done, layout(regions), why), nil
}

// regionSize is at how many bytes the stores split a region; the least, if they differ. False: none tells, and it is a guess.
func (c *chore) regionSize(ctx context.Context) (bytes int64, told bool) {
	if monitored, ok := c.driver.(store.Monitored); ok {
		w := servermetrics.New(monitored.Servers(), clock.Since(time.Now()))
		defer w.Close()
		for _, s := range w.Configs(ctx, statusTime) {
			if size := s.Config.Bytes(servermetrics.RegionSize); size > 0 && (bytes == 0 || size < bytes) {
				bytes = size
			}
		}
	}
	if bytes == 0 {
		return regionBytes, false
	}
	return bytes, true
}

// suitable is how many regions of a size suit the bytes to be loaded, and the stores.
func (c *chore) suitable(size int64) int {
	key := len(c.generator.Key(nil, c.spec.InsertStart))
	bytes := float64(c.spec.InsertCount) * float64(c.generator.RowBytes()+int64(key))
	n := max(regionsPerStore*len(c.driver.Cluster().Stores), int(min(maxRegions, math.Ceil(bytes/float64(size)))))
	return int(max(1, min(int64(n), c.spec.InsertCount)))
}

// lacking returns those of the keys at which none of the regions begins or ends.
func lacking(regions []store.Region, keys [][]byte) [][]byte {
	there := make(map[string]bool)
	for _, r := range regions {
		there[string(r.Start)], there[string(r.End)] = true, true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key []byte) bool { return there[string(key)] })
}

// splitAt asks for the borders that are not there until they are.
func (c *chore) splitAt(ctx context.Context, regions []store.Region, borders [][]byte) ([]store.Region, error) {
	deadline := time.Now().Add(layoutTime)
	var asked error
	for {
		missing := lacking(regions, borders)
		if len(missing) == 0 {
			return regions, nil
		}
		c.say(fmt.Sprintf("splitting: %d of %d bounds are there", len(borders)-len(missing), len(borders)))
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("PD has not split table %q in %v: %d of %d bounds are there: %w", c.spec.Key.Table, layoutTime, len(borders)-len(missing), len(borders),
				cmp.Or(asked, errors.New("it does not say why; its log may")))
		}
		asked = c.admin.Split(ctx, missing)
		var err error
		if regions, err = c.admin.Regions(ctx, c.first, c.end); err != nil {
			return nil, err
		}
		if len(lacking(regions, borders)) == 0 {
			return regions, nil
		}
		if err := pause(ctx, layoutPause); err != nil {
			return nil, err
		}
	}
}

// scatter spreads the table's regions, and waits until PD is done with them. When that takes too long the load may begin all the same.
func (c *chore) scatter(ctx context.Context) ([]store.Region, error) {
	regions, err := c.admin.Regions(ctx, c.first, c.end)
	if err != nil {
		return nil, err
	}
	ids := make([]uint64, len(regions))
	for i, r := range regions {
		ids[i] = r.ID
	}
	if err := c.admin.Scatter(ctx, ids, "kvbench-"+c.spec.Key.Table); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(layoutTime); ; {
		moving := 0
		for _, id := range ids {
			busy, err := c.admin.Moving(ctx, id)
			if err != nil {
				return nil, err
			}
			if busy {
				moving++
			}
		}
		if regions, err = c.admin.Regions(ctx, c.first, c.end); err != nil {
			return nil, err
		}
		led := !slices.ContainsFunc(regions, func(r store.Region) bool { return r.Leader == 0 })
		if moving == 0 && led {
			return regions, nil
		}
		c.say(fmt.Sprintf("scattering: %d of %d regions are on their way", moving, len(ids)))
		if time.Now().After(deadline) {
			c.say(fmt.Sprintf("scattering is not done after %v; it goes on meanwhile", layoutTime))
			return regions, nil
		}
		if err := pause(ctx, layoutPause); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// leadersOf counts regions by the store that leads them.
func leadersOf(regions []store.Region) map[uint64]int {
	leaders := make(map[uint64]int)
	for _, r := range regions {
		leaders[r.Leader]++
	}
	return leaders
}

// uneven reports whether a store leads more than it should of so many regions: beyond an even share, rounded up, by more than
// a quarter of it.
func uneven(regions []store.Region, stores int) bool {
	share := (len(regions) + stores - 1) / max(1, stores)
	for _, n := range leadersOf(regions) {
		if n > share+share/4 {
			return true
		}
	}
	return false
}

// layout says how regions lie.
func layout(regions []store.Region) string {
	leaders := leadersOf(regions)
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(leaders)) {
		if id == 0 {
			parts = append(parts, fmt.Sprintf("%d without leader", leaders[id]))
		} else {
			parts = append(parts, fmt.Sprintf("%d led by store %d", leaders[id], id))
		}
	}
	noun := "regions"
	if len(regions) == 1 {
		noun = "region"
	}
	return fmt.Sprintf("%d %s (%s)", len(regions), noun, strings.Join(parts, ", "))
}

// clean removes the table and what is remembered of it, or says what there is. What is remembered goes first: it may only ever
// say less than is true.
func (c *chore) clean(ctx context.Context, really bool) (string, error) {
	regions, err := c.admin.Regions(ctx, c.first, c.end)
	if err != nil {
		return "", err
	}
	if !really {
		return c.describe(ctx, regions)
	}
	remembered := manifest.Prefix(c.spec.Key.Table)
	for _, r := range [][2]string{{remembered, remembered + "\x00"}, {remembered + "/", remembered + "0"}} {
		if err := c.admin.DeleteRange(ctx, []byte(r[0]), []byte(r[1])); err != nil {
			return "", fmt.Errorf("remove what is remembered of table %q: %w", c.spec.Key.Table, err)
		}
	}
	said := time.Now()
	for i, r := range regions {
		from, to := c.first, c.end
		if bytes.Compare(r.Start, from) > 0 {
			from = r.Start
		}
		if len(r.End) > 0 && bytes.Compare(r.End, to) < 0 {
			to = r.End
		}
		if err := c.admin.DeleteRange(ctx, from, to); err != nil {
			return "", fmt.Errorf("%d of %d regions of table %q are cleared, then: %w; the same command clears the rest", i, len(regions), c.spec.Key.Table, err)
		}
		if time.Since(said) >= deletePause {
			said = time.Now()
			c.say(fmt.Sprintf("cleaning: %d of %d regions", i+1, len(regions)))
		}
	}
	switch key, err := c.admin.FirstKey(ctx, c.first, c.end); {
	case err != nil:
		return "", fmt.Errorf("table %q is cleared, but that could not be checked: %w", c.spec.Key.Table, err)
	case key != nil:
		return "", fmt.Errorf("table %q has been cleared and has rows again (%q): somebody writes to it", c.spec.Key.Table, key)
	}
	return fmt.Sprintf("table %q is gone: %d regions cleared, and what was remembered of it", c.spec.Key.Table, len(regions)), nil
}

// describe says what cleaning would remove.
func (c *chore) describe(ctx context.Context, regions []store.Region) (string, error) {
	key, err := c.admin.FirstKey(ctx, c.first, c.end)
	if err != nil {
		return "", fmt.Errorf("look for rows of table %q: %w", c.spec.Key.Table, err)
	}
	rows := "it has no rows"
	if key != nil {
		rows = fmt.Sprintf("its first row is %q", key)
	}
	clk := clock.Since(time.Now())
	session, err := c.driver.Open(0, 1, clk)
	if err != nil {
		return "", err
	}
	defer session.Close()
	keeper := &manifest.Keeper{Session: session, Clock: clk, Table: c.spec.Key.Table, Timeout: recallTimeout}
	remembered := "nothing is remembered of a load"
	switch m, err := keeper.Read(); {
	case err != nil:
		remembered = "what is remembered of a load cannot be read"
	case m != nil:
		remembered = fmt.Sprintf("%d records are remembered as loaded", m.Loaded.Len())
	}
	return fmt.Sprintf("cluster %d at PD %s, table %q: all keys from %q up to %q, which is excluded, in %s; %s; %s",
		c.driver.Cluster().ID, strings.Join(c.spec.TiKV.PD, ","), c.spec.Key.Table, c.first, c.end, layout(regions), rows, remembered), nil
}
