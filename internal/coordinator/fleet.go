// SPDX-License-Identifier: Apache-2.0

// Package coordinator leads a fleet of workers through a run: it finds them,
// compares clocks, prepares all before any may start, starts all at one moment,
// watches, copies their journals as they grow, and stops them. What they measured
// is in the results directory whatever happened to whom.
//
// A worker in this process, in another one, behind a forwarded port or in a pod is
// the same to it: a name and a way to connect.
package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// Address is how a worker is reached.
type Address struct {
	Name string // host:port, or with Dial whatever names the worker to the user
	Host string // name that its certificate must carry; empty: the host of Name
	Dial control.Dialer
}

const dnsScheme = "dns:///"

// Addresses reads a list of workers: host:port separated by commas, or
// dns:///name:port, which stands for every address of that name.
func Addresses(ctx context.Context, list string) ([]Address, error) {
	var found []Address
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		address, all := strings.CutPrefix(item, dnsScheme)
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || (all && host == "") {
			return nil, exitcode.With(exitcode.Usage, fmt.Errorf("worker %q: want host:port, or dns:///name:port", item))
		}
		if !all {
			found = append(found, Address{Name: address})
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, exitcode.With(exitcode.Unreachable, fmt.Errorf("workers %s: %w", item, err))
		}
		names := podNames(ctx, host, port)
		if len(names) == 0 {
			for _, ip := range ips {
				names = append(names, net.JoinHostPort(ip, port))
			}
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		for _, name := range names {
			found = append(found, Address{Name: name, Host: host})
		}
	}
	if len(found) == 0 {
		return nil, exitcode.With(exitcode.Usage, errors.New("no workers are given"))
	}
	return found, nil
}

// podNames returns the workers behind a headless Service of Kubernetes by the names
// that its pods keep when they are replaced, which their addresses do not survive;
// nothing for a name that is none.
func podNames(ctx context.Context, service, port string) (addresses []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "control", "tcp", service)
	if err != nil {
		return nil
	}
	for _, r := range records {
		if p := fmt.Sprint(r.Port); p == port {
			addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), p))
		}
	}
	return addresses
}

// Options say how to speak to the workers.
type Options struct {
	Security control.Security
	Log      *slog.Logger
}

// Fleet is a set of workers that have answered. Close must be called at the end.
type Fleet struct {
	members []*member
	absent  []*member // that Reach has left out, with the reason in failed
	log     *slog.Logger
}

// member is one worker.
type member struct {
	index   int
	name    string // unique in the fleet; of its directory in the results
	address string
	hello   *workerpb.HelloResponse
	failed  error // to say hello
	conn    *grpc.ClientConn
	client  workerpb.WorkerClient
}

const (
	helloTimeout = 10 * time.Second // to begin a run, for which all are needed
	reachTimeout = 3 * time.Second  // to act on a run that goes on, with those that are there
)

// Connect says hello to all workers at once. It fails if one does not answer
// within 10 s, speaks another version, or is there twice.
func Connect(ctx context.Context, addresses []Address, o Options) (*Fleet, error) {
	f, err := greet(ctx, addresses, o, helloTimeout)
	if err == nil {
		err = f.failed(f.absent)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Reach is Connect for verbs that act on a run which goes on whether they do or not: it
// leaves out workers that do not answer within 3 s. What the fleet then does names
// them in an error of code [exitcode.Degraded]. It fails if none answers.
func Reach(ctx context.Context, addresses []Address, o Options) (*Fleet, error) {
	f, err := greet(ctx, addresses, o, reachTimeout)
	if err == nil && len(f.members) == 0 {
		err = f.failed(f.absent)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// greet says hello to all workers at once, and tells those that answer from those
// that do not.
func greet(ctx context.Context, addresses []Address, o Options, timeout time.Duration) (*Fleet, error) {
	f := &Fleet{log: o.Log}
	var asked []*member
	for i, a := range addresses {
		host := cmp.Or(a.Host, hostOf(a.Name))
		conn, err := control.Dial(a.Name, host, o.Security, a.Dial, o.Log)
		if err != nil {
			f.members = asked // to be closed
			return f, exitcode.With(exitcode.Usage, err)
		}
		asked = append(asked, &member{
			index: i, name: a.Name, address: a.Name,
			conn: conn, client: workerpb.NewWorkerClient(conn),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range asked {
		wg.Go(func() { m.failed = m.greet(ctx) })
	}
	wg.Wait()
	for _, m := range asked {
		if m.failed == nil {
			f.members = append(f.members, m)
		} else {
			f.absent = append(f.absent, m)
		}
	}
	return f, f.identify()
}

func (m *member) greet(ctx context.Context) (err error) {
	m.hello, err = m.client.Hello(ctx, &workerpb.HelloRequest{})
	if err == nil && m.hello.GetProtocol() != control.Protocol {
		err = exitcode.With(exitcode.Unreachable, fmt.Errorf("it is kvbench %s and speaks version %d of the protocol, this is version %d: use the same kvbench everywhere",
			m.hello.GetVersion(), m.hello.GetProtocol(), control.Protocol))
	}
	return err
}

// failed is why workers did not say hello; nil if there are none.
func (f *Fleet) failed(absent []*member) error {
	errs := make(map[string]error)
	for _, m := range absent {
		errs[m.name] = m.failed
	}
	return failures(errs, len(f.members)+len(f.absent))
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// identify names the members, and refuses a worker that is there twice.
func (f *Fleet) identify() error {
	instances := make(map[string]string) // address by instance
	names := make(map[string]int)
	for _, m := range f.members {
		if other, twice := instances[m.hello.GetInstance()]; twice {
			return exitcode.With(exitcode.Usage, fmt.Errorf("%s and %s are the same worker", other, m.address))
		}
		instances[m.hello.GetInstance()] = m.address
		names[m.hello.GetName()]++
	}
	seen := make(map[string]bool)
	for _, m := range f.members {
		name := m.hello.GetName()
		if names[name] > 1 { // several on one host
			name = fmt.Sprintf("%s-%d", name, m.index)
		}
		if err := results.CheckName(name); err != nil || seen[name] {
			name = fmt.Sprintf("worker-%d", m.index)
		}
		m.name, seen[name] = name, true
	}
	return nil
}

// otherBuilds says which workers are another build than ours. They speak the same
// protocol, so it refuses nothing: whoever builds the image from a changed checkout
// has "-dirty" in one version and not in the other.
func (f *Fleet) otherBuilds(ours string) (warnings []string) {
	if ours == "" {
		return nil
	}
	builds := make(map[string][]string) // names by version
	for _, m := range f.members {
		if theirs := m.hello.GetVersion(); theirs != ours {
			builds[theirs] = append(builds[theirs], m.name)
		}
	}
	for _, theirs := range slices.Sorted(maps.Keys(builds)) {
		warnings = append(warnings, fmt.Sprintf("%s: kvbench %s, this is %s; both speak version %d of the protocol",
			some(builds[theirs], len(f.members)), theirs, ours, control.Protocol))
	}
	return warnings
}

// Size is the number of workers.
func (f *Fleet) Size() int { return len(f.members) }

// Close ends the connections. Runs go on if they are detached.
func (f *Fleet) Close() {
	for _, m := range slices.Concat(f.members, f.absent) {
		m.conn.Close()
	}
}

// all calls do for all members at once, waits for all, and joins their errors.
func (f *Fleet) all(ctx context.Context, do func(context.Context, *member) error) error {
	return failures(f.each(ctx, do), len(f.members))
}

// each calls do for all members at once, waits for all, and returns their errors by name.
func (f *Fleet) each(ctx context.Context, do func(context.Context, *member) error) map[string]error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs = make(map[string]error)
	)
	for _, m := range f.members {
		wg.Go(func() {
			if err := do(ctx, m); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[m.name] = err
			}
		})
	}
	wg.Wait()
	return errs
}
