// SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/spec"
)

// Plan is what a study is to do.
type Plan struct {
	Cells []Cell
	Steps []Step
	// Warnings say what was accepted but does not do what its writer may expect.
	Warnings []string
}

// Cell is one combination of what is varied.
type Cell struct {
	Variant  string    `json:"variant,omitempty"`
	Settings []Setting `json:"settings"` // what is varied, in the file's order
	// Properties are all that somebody wrote, of files, environment, study and flags together; LoadProperties those of
	// the load of its data.
	Properties     map[string]string `json:"properties"`
	LoadProperties map[string]string `json:"load_properties,omitempty"`
	Data           int               `json:"data"` // cells of the same number have the same records in the same table
}

// Setting is a value of what is varied.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Title says which cell it is, as in "B threadcount=4".
func (c *Cell) Title() string {
	var parts []string
	if c.Variant != "" {
		parts = append(parts, c.Variant)
	}
	for _, s := range c.Settings {
		parts = append(parts, s.Key+"="+s.Value)
	}
	return strings.Join(parts, " ")
}

// Spec returns what a cell runs.
func (c *Cell) Spec() (*spec.Spec, error) { return spec.ParseMap(c.Properties) }

// Length is how long a run of it takes at least: warm-up and window; 0 if it ends by count.
func (c *Cell) Length() time.Duration {
	s, err := c.Spec()
	if err != nil || s.Operations > 0 {
		return 0
	}
	return s.Warmup + s.Duration
}

// Step is one run of a plan.
type Step struct {
	Cell   int `json:"cell"`   // index
	Repeat int `json:"repeat"` // from 1 on
	// Skipped is the run that broke an objective at a lower value, so that this one is not made; "": it is, or was.
	Skipped  string    `json:"skipped,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Resolver makes the Spec of a run of what a cell names, with all that lies under it, as the environment, and over it,
// as flags; and that of a load.
type Resolver interface {
	Run(workloads []string, pairs []spec.Pair) (*spec.Spec, error)
	Load(pairs []spec.Pair) (*spec.Spec, error)
}

// Plan makes the cells and their order. The same file, with the same seed, makes the same plan.
// The error joins all that is wrong; each names the line and column.
func (f *File) Plan(r Resolver) (*Plan, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p := &Plan{}
	var errs []error
	said := make(map[string]bool)
	for _, c := range f.combinations() {
		cell, warnings, err := f.cell(r, c)
		if err != nil {
			for line := range strings.Lines(err.Error()) { // of many cells, the same
				if line = strings.TrimSpace(line); !said[line] {
					said[line] = true
					errs = append(errs, errors.New(line))
				}
			}
			continue
		}
		for _, w := range warnings {
			if !slices.Contains(p.Warnings, w) {
				p.Warnings = append(p.Warnings, w)
			}
		}
		p.Cells = append(p.Cells, cell)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.Steps = f.Rules.order(len(p.Cells))
	return p, f.lay(p.Cells)
}

// check looks at what the file's parts are together.
func (f *File) check() error {
	var errs []error
	where := make(map[string]string)
	for _, d := range f.Vary {
		if at, twice := where[d.Key]; twice {
			errs = append(errs, fmt.Errorf("%s: %s is varied already (%s)", d.Values[0].Where, d.Key, at))
		}
		where[d.Key] = cmp.Or(d.Values[0].Where, "flags")
	}
	for _, p := range f.Properties {
		if at, twice := where[p.Key]; twice {
			errs = append(errs, fmt.Errorf("%s: %s is varied (%s): leave it out here", p.Where, p.Key, at))
		}
	}
	for _, v := range f.Variants {
		for _, p := range v.Pairs {
			if at, twice := where[p.Key]; twice {
				errs = append(errs, fmt.Errorf("%s: %s is varied (%s), and set by variant %s: want one of them", p.Where, p.Key, at, v.Name))
			}
		}
	}
	for _, p := range f.Prices {
		if p.Key != "" && !slices.ContainsFunc(f.Variants, func(v Variant) bool { return v.Name == p.Key }) {
			errs = append(errs, fmt.Errorf("%s: prices of %s: there is no such variant", p.Where, p.Key))
		}
	}
	n := max(1, len(f.Variants)) * f.Rules.Repeats
	for _, d := range f.Vary {
		if n *= len(d.Values); n > maxSteps {
			errs = append(errs, fmt.Errorf("the study has more than %d runs: vary less, or repeat less", maxSteps))
			break
		}
	}
	if err := f.checkSkip(); err != nil {
		errs = append(errs, err)
	}
	if len(f.Vary) == 0 && len(f.Variants) == 0 {
		errs = append(errs, errors.New("nothing is varied: name a property with values under vary (--threads 1,2,4), or variants"))
	}
	return errors.Join(errs...)
}

// checkSkip refuses a rule that could never skip a run.
func (f *File) checkSkip() error {
	key := f.Rules.Stop.SkipHigher
	if key == "" {
		return nil
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: skip-higher %s: %s", f.SkipWhere, key, fmt.Sprintf(format, args...))
	}
	i := slices.IndexFunc(f.Vary, func(d Dimension) bool { return d.Key == key })
	if i < 0 {
		var varied []string
		for _, d := range f.Vary {
			varied = append(varied, d.Key)
		}
		return fail("is not varied: want a property that is (%s)", cmp.Or(strings.Join(varied, ", "), "none"))
	}
	for _, v := range f.Vary[i].Values {
		if _, err := spec.ParseRate(v.Value); err != nil {
			return fail("is varied over %s, which is no number above 0", v.Value)
		}
	}
	if len(f.SLO) == 0 {
		return fail("there is no objective that could be broken: want slo (--slo)")
	}
	return nil
}

// combination is a cell in the making.
type combination struct {
	variant  string
	settings []spec.Pair
	fixed    []spec.Pair // by the variant
}

// combinations returns all, the last of what is varied changing fastest, and variants faster still.
func (f *File) combinations() []combination {
	variants := f.Variants
	if len(variants) == 0 {
		variants = []Variant{{}}
	}
	all := []combination{{}}
	for _, d := range f.Vary {
		var next []combination
		for _, c := range all {
			for _, v := range d.Values {
				next = append(next, combination{settings: append(c.settings[:len(c.settings):len(c.settings)], v)})
			}
		}
		all = next
	}
	var cells []combination
	for _, c := range all {
		for _, v := range variants {
			cells = append(cells, combination{v.Name, c.settings, v.Pairs})
		}
	}
	return cells
}

// cell makes one of a combination.
func (f *File) cell(r Resolver, c combination) (cell Cell, warnings []string, err error) {
	workloads, pairs := split(f.Workloads, f.Properties, c.fixed, c.settings)
	s, err := r.Run(workloads, pairs)
	if err != nil {
		return cell, nil, err
	}
	cell = Cell{Variant: c.variant, Properties: s.Written()}
	for _, v := range c.settings {
		cell.Settings = append(cell.Settings, Setting{v.Key, v.Value})
	}
	if f.Rules.Load != Never {
		load, err := r.Load(slices.Concat(ofData(cell.Properties), f.Loads))
		if err != nil {
			return cell, nil, err
		}
		cell.LoadProperties = load.Written()
	}
	if err := objective.Check(f.SLO, s.Paced()); err != nil {
		return cell, nil, fmt.Errorf("slo: %w (%s)", err, cell.Title())
	}
	if h := f.Rules.Hooks.During; h != nil && cell.Length() > 0 && time.Duration(h.At) >= cell.Length() {
		return cell, nil, fmt.Errorf("hooks: during: at %v lies behind the end of a run of %v", time.Duration(h.At), cell.Length())
	}
	return cell, s.Warnings, nil
}

// split parts workloads from properties. A workload that is varied, or a variant's, takes the place of the study's.
func split(layers ...[]spec.Pair) (workloads []string, pairs []spec.Pair) {
	for _, layer := range layers {
		var named []string
		for _, p := range layer {
			if p.Key == workloadKey {
				named = append(named, p.Value)
				continue
			}
			pairs = append(pairs, p)
		}
		if named != nil {
			workloads = named
		}
	}
	return workloads, pairs
}

// ofRuns are properties that say how a run is made, and would only make a load slow, or short.
var ofRuns = []string{"dotransactions", "operationcount", "maxexecutiontime", "warmuptime", "threadcount", "target", "arrival", "catchup", "batch.size", "grace", "verifywrites"}

// ofData are the properties that a load needs of a run's.
func ofData(properties map[string]string) (pairs []spec.Pair) {
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(ofRuns, key) {
			pairs = append(pairs, spec.Pair{Key: key, Value: properties[key]})
		}
	}
	return pairs
}

// order is that of n cells. Repeats come one after the other, each of all cells, so that what changes in the meantime changes for all.
func (r *Rules) order(n int) []Step {
	random := rand.New(rand.NewPCG(r.Seed, 0))
	var steps []Step
	for repeat := range r.Repeats {
		cells := make([]int, n)
		for i := range cells {
			cells[i] = i
		}
		if r.Order == Random {
			random.Shuffle(n, func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		}
		for _, c := range cells {
			steps = append(steps, Step{Cell: c, Repeat: repeat + 1})
		}
	}
	return steps
}

// lay gives cells their data: those of one cluster and keyspace whose records or rows differ get tables of their own, if
// they are loaded once.
func (f *File) lay(cells []Cell) error {
	type table struct{ number, nth int } // of all data, and of those that have the same place
	known, places := make(map[string]table), make(map[string]int)
	for i := range cells {
		c := &cells[i]
		s, err := c.Spec()
		if err != nil {
			return err
		}
		place := strings.Join([]string{strings.Join(s.TiKV.PD, ","), s.TiKV.APIVersion, s.TiKV.Keyspace, s.TiKV.ColumnFamily, s.Key.Table}, "\n")
		data := place + fmt.Sprint(s.Shape(), s.Records, s.InsertStart, s.InsertCount)
		t, ok := known[data]
		if !ok {
			places[place]++
			t = table{len(known), places[place]}
			known[data] = t
		}
		c.Data = t.number
		if f.Rules.Load == Once && t.nth > 1 {
			name := s.Key.Table + "-" + strconv.Itoa(t.nth)
			c.Properties["table"], c.LoadProperties["table"] = name, name
		}
	}
	return nil
}
