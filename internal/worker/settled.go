// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/servermetrics"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// When a cluster is settled, see docs/cluster.md.
const (
	mostPending    = 64 << 20 // bytes that wait for compaction on a store
	operatorsAsked = 64       // regions whose operators are asked for, evenly over the table

	examineTime = 3 * time.Second
	statusTime  = 2 * time.Second
)

// condition is the state that a cluster is in, as far as it matters to the keys of a table.
type condition struct {
	details map[string]string // for results
	against []string          // why it is not settled
	unknown []string          // what could not be seen
	peers   int               // of a region of the table, the fewest; 0: not seen
}

// String says whether the cluster is settled. What was not seen does not count as settled.
func (c *condition) String() string {
	switch {
	case len(c.against) > 0:
		return "no: " + strings.Join(c.against, "; ")
	case len(c.unknown) > 0:
		return "unknown: " + strings.Join(c.unknown, "; ")
	default:
		return "yes"
	}
}

// examine looks at the regions that hold keys of [first, end), and at the stores. It takes 3 s at most.
func examine(ctx context.Context, driver store.Administered, clk clock.Clock, first, end []byte) *condition {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	c := &condition{details: make(map[string]string)}
	c.regions(ctx, driver, first, end)
	c.members(ctx, driver, clk)
	c.details["settled"] = c.String()
	return c
}

func (c *condition) regions(ctx context.Context, driver store.Administered, first, end []byte) {
	admin := driver.Admin()
	regions, err := admin.Regions(ctx, first, end)
	if err != nil {
		c.unknown = append(c.unknown, "the table's regions: "+firstLine(err))
		return
	}
	c.details["table"] = layout(regions)
	fewest := regions[0].Peers
	for _, r := range regions {
		fewest = min(fewest, r.Peers)
	}
	c.peers = fewest
	c.details["replicas"] = fmt.Sprint(fewest)
	if n := leadersOf(regions)[0]; n > 0 {
		c.against = append(c.against, fmt.Sprintf("%d of %d regions have no leader", n, len(regions)))
	}
	if uneven(regions, len(driver.Cluster().Stores)) {
		c.against = append(c.against, "leaders are not balanced: "+layout(regions))
	}
	asked, moving := min(len(regions), operatorsAsked), 0
	for i := range asked {
		busy, err := admin.Moving(ctx, regions[i*len(regions)/asked].ID)
		if err != nil {
			c.unknown = append(c.unknown, "PD's operators: "+firstLine(err))
			return
		}
		if busy {
			moving++
		}
	}
	if moving > 0 {
		c.against = append(c.against, fmt.Sprintf("PD is at work on %d of %d regions looked at", moving, asked))
	}
}

// members looks at the stores and at PD, all at once.
func (c *condition) members(ctx context.Context, driver store.Administered, clk clock.Clock) {
	monitored, ok := driver.(store.Monitored)
	if !ok {
		c.unknown = append(c.unknown, "pending compaction: this driver does not know the stores' status addresses")
		return
	}
	w := servermetrics.New(monitored.Servers(), clk)
	defer w.Close()
	var (
		asked     sync.WaitGroup
		samples   []servermetrics.Sample
		configs   []servermetrics.StoreConfig
		placement *servermetrics.Placement
		err       error
	)
	asked.Go(func() { samples = w.Read(ctx, statusTime) })
	asked.Go(func() { configs = w.Configs(ctx, statusTime) })
	asked.Go(func() { placement, err = w.Placement(ctx, statusTime) })
	asked.Wait()
	c.pending(samples)
	c.configured(configs)
	if err != nil {
		c.details["schedulers"] = "unknown: " + err.Error()
		return
	}
	c.details["schedulers"] = cmp.Or(strings.Join(slices.Sorted(slices.Values(placement.Schedulers)), ", "), "none")
	if placement.Replicas == 0 {
		return
	}
	c.details["replicas wanted"] = fmt.Sprint(placement.Replicas)
	// More replicas than stores never come about.
	if want := min(placement.Replicas, len(driver.Cluster().Stores)); c.peers > 0 && c.peers < want {
		c.against = append(c.against, fmt.Sprintf("regions have %d of %d replicas", c.peers, want))
	}
}

func (c *condition) pending(samples []servermetrics.Sample) {
	for _, s := range samples {
		pending, ok := s.Figures["pending_compaction_bytes"]
		switch {
		case s.Figures == nil:
			c.unknown = append(c.unknown, fmt.Sprintf("pending compaction of store %s (%s)", s.Store, s.Missing))
		case !ok:
			c.unknown = append(c.unknown, fmt.Sprintf("pending compaction of store %s, which does not tell", s.Store))
		default:
			c.details["pending compaction of "+s.Store] = megabytes(pending)
			if pending > mostPending {
				c.against = append(c.against, fmt.Sprintf("%s wait for compaction on store %s", megabytes(pending), s.Store))
			}
		}
		if stored, ok := s.Figures["stored_bytes"]; ok {
			c.details["bytes stored on "+s.Store] = megabytes(stored)
		}
	}
}

// configured keeps the settings of the stores: once, where all that tell agree.
func (c *condition) configured(stores []servermetrics.StoreConfig) {
	settings := make(map[string]map[string][]string) // by name and value, the stores
	add := func(name, value, store string) {
		if settings[name] == nil {
			settings[name] = make(map[string][]string)
		}
		settings[name][value] = append(settings[name][value], store)
	}
	told := 0
	for _, s := range stores {
		if s.Config == nil {
			c.details["configuration of "+s.Store] = "unknown: " + s.Missing
			continue
		}
		told++
		if version := s.Config.APIVersion(); version != "" {
			add("API version", version, s.Store)
		}
		for name, value := range s.Config {
			if name != servermetrics.AdvertisedAddress {
				add("configuration: "+name, value, s.Store)
			}
		}
	}
	for name, values := range settings {
		var parts []string
		for _, value := range slices.Sorted(maps.Keys(values)) {
			if len(values[value]) == told {
				parts = append(parts, value)
			} else {
				parts = append(parts, value+" on "+strings.Join(values[value], ", "))
			}
		}
		c.details[name] = strings.Join(parts, "; ")
	}
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }

// examine tells the coordinator, if this is the first worker, in which state a run or a load finds the cluster, and warns of a run on
// one that is not settled.
func (e *engine) examine(ctx context.Context, found *workerpb.PrepareResponse) error {
	driver, ok := e.driver.(store.Administered)
	if !ok || e.worker != 0 || e.asking || e.spec.Phase == spec.Verify || found.Cluster == nil {
		return nil
	}
	generator, err := workload.New(e.spec, workload.Place{Workers: 1, Lanes: 1})
	if err != nil {
		return err
	}
	first, end := generator.KeyRange()
	c := examine(ctx, driver, &e.clock, first, end)
	found.Cluster.Details = maps.Clone(found.Cluster.Details)
	maps.Copy(found.Cluster.Details, c.details)
	if len(c.against) > 0 && e.spec.Phase == spec.Run {
		found.Warnings = append(found.Warnings, "the cluster is not settled: "+strings.Join(c.against, "; ")+" (kvbench settle, or run --settle, waits for that)")
	}
	return nil
}

const (
	settlePause = 2 * time.Second
	settleSays  = 10 * time.Second // at least so often
)

// settle waits until the cluster is settled in two looks that follow each other. It gives up after so long, and says why.
func (c *chore) settle(ctx context.Context, most time.Duration) (done string, gaveUp bool, err error) {
	began := time.Now()
	clk := clock.Since(began)
	var said time.Time
	var last string
	for looks := 0; ; {
		now := examine(ctx, c.driver, clk, c.first, c.end)
		if err := ctx.Err(); err != nil {
			return "", false, err
		}
		text := now.String()
		if looks++; text != "yes" {
			looks = 0
		}
		waited := time.Since(began).Round(time.Second)
		switch {
		case looks == 2:
			return fmt.Sprintf("the cluster is settled (%s), after %v", now.details["table"], waited), false, nil
		case time.Since(began) >= most && looks == 0:
			return fmt.Sprintf("the cluster is not known to be settled after %v: %s", waited, text), true, nil
		case looks == 0 && (text != last || time.Since(said) >= settleSays):
			last, said = text, time.Now()
			c.say(fmt.Sprintf("settled after %v? %s", waited, text))
		}
		if err := pause(ctx, settlePause); err != nil {
			return "", false, err
		}
	}
}
