// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
)

// APIVersion is the API version of a cluster's storage: how keys and values are stored, and whether they can expire.
type APIVersion string

const (
	V1    APIVersion = "V1"    // plain keys, no TTL
	V1TTL APIVersion = "V1TTL" // plain keys, TTL
	V2    APIVersion = "V2"    // keyspaces, TTL
)

// ParseAPIVersion reads V1, V1TTL or V2, in any case; empty is V1.
func ParseAPIVersion(s string) (APIVersion, error) {
	switch v := APIVersion(strings.ToUpper(s)); v {
	case "":
		return V1, nil
	case V1, V1TTL, V2:
		return v, nil
	}
	return "", fmt.Errorf("API version %q: want V1, V1TTL or V2", s)
}

// API is one of the two that a cluster serves.
type API string

// The two APIs. Under API version V1 they share one range of keys; a cluster's data can be of one of them only.
const (
	RawAPI API = "raw"
	TxnAPI API = "txn" // transactions
)

// Options describe a cluster. The zero value is a cluster of three stores in memory, on free ports of the loopback interface.
type Options struct {
	PDAddr        string // host:port of PD; default 127.0.0.1:0
	Stores        int    // default 3
	StoreHost     string // address that stores listen on; default 127.0.0.1
	StorePort     int    // port of the first store, the others follow; 0 takes free ports
	StatusPort    int    // port of the first store's status address, where metrics and configuration are; the others follow; 0 takes free ports
	AdvertiseHost string // host that clients are sent to; default: the one listened on
	AdminAddr     string // host:port of the admin endpoint; empty for none

	DataDir    string     // where data and regions are kept (a crash may lose the last writes); empty keeps them in memory
	APIVersion APIVersion // default V1
	Keyspaces  []string   // of API V2, besides DEFAULT; they get the ids 1, 2, …

	Regions   int      // regions at the start; default four per store
	Records   uint64   // the regions share the default keys of a go-ycsb load of so many records evenly; default 100,000
	SplitKeys [][]byte // where to split instead, in the client's form (without a keyspace's prefix)
	API       API      // whose keys the regions are split at; default RawAPI. Regions that are split at raw keys break transactions under API V1

	ElectionDelay time.Duration // from the loss of a leader to the next one; default 1 s
	Service       Service       // of each store; by default commands are served as they come

	OwnProcess bool // nothing else is in the process: the CPU and the memory of a single store are the process's

	TLS    TLS          // for PD, stores and admin endpoint
	Logger *slog.Logger // default: none
}

const (
	defaultStores           = 3
	defaultRegionsPerStore  = 4
	defaultRecords          = 100_000
	defaultElectionDelay    = time.Second
	maxStores               = 100
	maxRegions              = 100_000
	defaultListen           = "127.0.0.1"
	defaultKeyspace         = "DEFAULT"
	errBadKeyspace          = "a keyspace name must not be empty or given twice"
	errKeyspacesWithoutV2   = "keyspaces need API version V2"
	errSplitKeysWithRegions = "regions and split keys exclude each other"
)

// withDefaults checks o and fills what is not set.
func (o Options) withDefaults() (Options, error) {
	if o.PDAddr == "" {
		o.PDAddr = net.JoinHostPort(defaultListen, "0")
	}
	if o.StoreHost == "" {
		o.StoreHost = defaultListen
	}
	if o.Stores == 0 {
		o.Stores = defaultStores
	}
	if o.Regions == 0 && len(o.SplitKeys) == 0 {
		o.Regions = defaultRegionsPerStore * o.Stores
	}
	if o.Records == 0 {
		o.Records = defaultRecords
	}
	if o.ElectionDelay == 0 {
		o.ElectionDelay = defaultElectionDelay
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.API == "" {
		o.API = RawAPI
	}
	var err error
	if o.APIVersion, err = ParseAPIVersion(string(o.APIVersion)); err != nil {
		return o, err
	}
	if o.Service, err = o.Service.withDefaults(); err != nil {
		return o, err
	}
	if _, _, err = net.SplitHostPort(o.PDAddr); err != nil {
		return o, fmt.Errorf("PD address %q: want host:port", o.PDAddr)
	}
	names := slices.Sorted(slices.Values(o.Keyspaces))
	switch {
	case o.API != RawAPI && o.API != TxnAPI:
		return o, fmt.Errorf("API %q: want raw or txn", o.API)
	case o.API == TxnAPI && o.APIVersion == V1TTL:
		return o, errors.New("transactions need API version V1 or V2: V1TTL is for the raw API alone")
	case o.Stores < 1 || o.Stores > maxStores:
		return o, fmt.Errorf("%d stores: want 1 to %d", o.Stores, maxStores)
	case o.StorePort < 0 || o.StorePort > 0 && o.StorePort+o.Stores-1 > 65535:
		return o, fmt.Errorf("store port %d: %d stores do not fit below 65536", o.StorePort, o.Stores)
	case o.StatusPort < 0 || o.StatusPort > 0 && o.StatusPort+o.Stores-1 > 65535:
		return o, fmt.Errorf("status port %d: %d stores do not fit below 65536", o.StatusPort, o.Stores)
	case o.Regions < 0 || o.Regions > maxRegions || len(o.SplitKeys) >= maxRegions:
		return o, fmt.Errorf("%d regions: want 1 to %d", max(o.Regions, len(o.SplitKeys)+1), maxRegions)
	case o.Regions > 0 && len(o.SplitKeys) > 0:
		return o, errors.New(errSplitKeysWithRegions)
	case len(o.Keyspaces) > 0 && o.APIVersion != V2:
		return o, errors.New(errKeyspacesWithoutV2)
	case slices.Contains(names, "") || slices.Contains(names, defaultKeyspace) || len(slices.Compact(names)) != len(o.Keyspaces):
		return o, errors.New(errBadKeyspace)
	case len(o.Keyspaces) > maxKeyspaceID:
		return o, fmt.Errorf("more than %d keyspaces", maxKeyspaceID)
	case o.ElectionDelay < 0:
		return o, fmt.Errorf("election delay %v is negative", o.ElectionDelay)
	}
	return o, nil
}

// firstSplitKeys returns the keys that the first regions are split at, sorted, as requests carry them. Under API V2 every keyspace
// is split off from what is around it, and split alike.
func (o Options) firstSplitKeys(keyspaces []string) [][]byte {
	keys := o.SplitKeys
	if len(keys) == 0 {
		keys = ycsbSplitKeys(o.Records, o.Regions)
	}
	if o.APIVersion == V2 {
		var all [][]byte
		for id := range keyspaces {
			prefix := o.API.keyspacePrefix(uint32(id))
			all = append(all, prefix, o.API.keyspacePrefix(uint32(id)+1))
			for _, key := range keys {
				all = append(all, slices.Concat(prefix, key))
			}
		}
		keys = all
	} else if o.API == TxnAPI {
		keys = encodeKeys(keys)
	}
	keys = slices.SortedFunc(slices.Values(keys), bytes.Compare)
	return slices.DeleteFunc(slices.CompactFunc(keys, bytes.Equal), func(key []byte) bool { return len(key) == 0 })
}
