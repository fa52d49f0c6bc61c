// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// storage is the one Pebble database behind all stores. A key is stored after one byte that tells its column family. Under API
// V1TTL and V2 a value is followed by its expiry and flags (see sealValue), so that it expires without a second lookup. What has
// expired is hidden, not collected.
type storage struct {
	db      *pebble.DB
	lock    *pebble.Lock // of the data directory; nil in memory
	version APIVersion
	now     func() time.Time

	// casMu makes compare-and-swap atomic against writes that ask for it (for_cas), as TiKV does; other writes do not take it.
	casMu sync.Mutex

	txn transactions
}

// The first byte of a stored key.
const (
	familyDefault = 'd'
	familyLock    = 'l'
	familyWrite   = 'w'
	familyMeta    = 'm' // the manifest
)

var manifestKey = []byte{familyMeta}

// manifest is what a data directory remembers besides data.
type manifest struct {
	ClusterID  uint64
	APIVersion string
	Keyspaces  []string
	Stores     int
	NextID     uint64
	Regions    []manifestRegion
}

type manifestRegion struct {
	Meta        *metapb.Region
	LeaderStore uint64
}

func openStorage(dir string, version APIVersion, log *slog.Logger) (*storage, error) {
	opts := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   64 << 20,
		MemTableSize:                128 << 20,
		MemTableStopWritesThreshold: 4,
		Logger:                      pebbleLogger{log},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	s := &storage{version: version, now: time.Now, txn: transactions{latches: latches{seed: maphash.MakeSeed()}}}
	var err error
	if dir == "" {
		dir = "playground"
		opts.FS = vfs.NewMem()
		opts.DisableWAL = true // nothing survives the process anyway
		for i := range opts.Levels {
			opts.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
		}
	} else if s.lock, err = lockDirectory(dir); err != nil {
		return nil, err
	}
	opts.Lock = s.lock
	if s.db, err = pebble.Open(dir, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("open data directory %q: %w", dir, err), s.close())
	}
	return s, nil
}

// lockDirectory makes a data directory the playground's own. Pebble would do so too, but leaves a goroutine behind when it fails.
func lockDirectory(dir string) (*pebble.Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("data directory %q is in use: %w", dir, err)
	}
	return lock, nil
}

func (s *storage) close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// loadManifest returns nil when the database is new.
func (s *storage) loadManifest() (*manifest, error) {
	data, closer, err := s.db.Get(manifestKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	m := &manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read the manifest of the data directory: %w", err)
	}
	return m, nil
}

func (s *storage) saveManifest(m *manifest) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.db.Set(manifestKey, data, pebble.Sync)
}

// family returns the stored prefix of a column family. API V2 has only the default one, which is not named.
func (s *storage) family(cf string) (byte, error) {
	if cf == "" {
		return familyDefault, nil
	}
	if s.version != V2 {
		switch cf {
		case "default":
			return familyDefault, nil
		case "lock":
			return familyLock, nil
		case "write":
			return familyWrite, nil
		}
	}
	return 0, fmt.Errorf("invalid cf name: %s", cf)
}

// The trailer of a value under V1TTL and V2: eight big-endian bytes of expiry (Unix seconds, 0 = never), one byte of flags.
const (
	trailerSize = 9
	flagDeleted = 1 // API V2 keeps an entry for a deleted key
)

func (s *storage) expires() bool { return s.version != V1 }

// sealValue appends value and, where the API version has one, its trailer.
func (s *storage) sealValue(dst, value []byte, ttl uint64, flags byte) []byte {
	dst = append(dst, value...)
	if !s.expires() {
		return dst
	}
	expiry := uint64(0)
	if ttl > 0 {
		expiry = uint64(s.now().Unix()) + ttl
	}
	return append(binary.BigEndian.AppendUint64(dst, expiry), flags)
}

// entry is a stored value taken apart.
type entry struct {
	value   []byte
	expiry  uint64
	deleted bool
}

func (s *storage) openValue(stored []byte) entry {
	if !s.expires() || len(stored) < trailerSize {
		return entry{value: stored}
	}
	n := len(stored) - trailerSize
	return entry{stored[:n], binary.BigEndian.Uint64(stored[n:]), stored[len(stored)-1]&flagDeleted != 0}
}

func (s *storage) expired(e entry) bool {
	return e.expiry != 0 && uint64(s.now().Unix()) >= e.expiry
}

func (s *storage) live(e entry) bool { return !e.deleted && !s.expired(e) }

// put adds a write of value at the stored key to a batch.
func (s *storage) put(b *pebble.Batch, key, value []byte, ttl uint64) error {
	if !s.expires() {
		return b.Set(key, value, nil)
	}
	op := b.SetDeferred(len(key), len(value)+trailerSize)
	copy(op.Key, key)
	s.sealValue(op.Value[:0], value, ttl, 0)
	return op.Finish()
}

// delete adds the removal of the stored key to a batch.
func (s *storage) delete(b *pebble.Batch, key []byte) error {
	if s.version == V2 {
		return b.Set(key, s.sealValue(nil, nil, 0, flagDeleted), nil)
	}
	return b.Delete(key, nil)
}

func (s *storage) commit(b *pebble.Batch) error { return b.Commit(pebble.NoSync) }

// familyEnd is the first stored key after a column family.
func familyEnd(family byte) []byte { return []byte{family + 1} }

// keyspaceID returns the id of a keyspace: its place in the list, DEFAULT first.
func keyspaceID(keyspaces []string, name string) (uint32, bool) {
	i := slices.Index(keyspaces, name)
	return uint32(max(i, 0)), i >= 0
}

// pebbleLogger passes Pebble's remarks on as debug records.
type pebbleLogger struct{ log *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	panic("pebble: " + fmt.Sprintf(format, args...))
}
