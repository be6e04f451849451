package monitor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Pool is what a storage cluster says of a pool.
type Pool struct {
	Size, MinSize int
	// Rule is the name of its CRUSH rule.
	Rule         string
	Applications []string
}

// Have is what a storage cluster has.
type Have struct {
	Entities map[string]Entity
	// Options are the values of the configuration database, by section and name.
	Options map[[2]string]string
	// Rules are the numbers of the CRUSH rules, by their names.
	Rules map[string]int
	Pools map[string]Pool
	// Filesystems are the names of those of CephFS.
	Filesystems []string
	// Monitors are the names in the map of monitors.
	Monitors []string
}

// questions are what ReadHave asks, in the order in which parseHave reads the answers.
var questions = [][]string{{"auth", "ls"}, {"config", "dump"}, {"osd", "crush", "rule", "dump"}, {"osd", "pool", "ls", "detail"}, {"fs", "ls"}, {"mon", "dump"}}

// ReadHave asks a storage cluster what it has.
func ReadHave(ctx context.Context, c Client) (Have, error) {
	out, said, err := c.Batch(ctx, questions)
	if err != nil {
		return Have{}, err
	}
	h, err := parseHave(bytes.NewReader(out))
	if err != nil && said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return h, err
}

// parseHave reads the answers to questions, one value of JSON after the other.
func parseHave(r io.Reader) (Have, error) {
	d := json.NewDecoder(r)
	var auth struct {
		Dump []struct {
			Entity string            `json:"entity"`
			Key    string            `json:"key"`
			Caps   map[string]string `json:"caps"`
		} `json:"auth_dump"`
	}
	var config []struct {
		Section string `json:"section"`
		Name    string `json:"name"`
		Value   string `json:"value"`
		Mask    string `json:"mask"`
	}
	var rules []struct {
		ID   int    `json:"rule_id"`
		Name string `json:"rule_name"`
	}
	var pools []struct {
		Name         string                     `json:"pool_name"`
		Size         int                        `json:"size"`
		MinSize      int                        `json:"min_size"`
		Rule         int                        `json:"crush_rule"`
		Applications map[string]json.RawMessage `json:"application_metadata"`
	}
	var filesystems []struct {
		Name string `json:"name"`
	}
	var mons struct {
		Mons []struct {
			Name string `json:"name"`
		} `json:"mons"`
	}
	for i, into := range []any{&auth, &config, &rules, &pools, &filesystems, &mons} {
		if err := d.Decode(into); err != nil {
			return Have{}, fmt.Errorf("read the answer to %v: %w", questions[i], err)
		}
	}
	if auth.Dump == nil || mons.Mons == nil {
		return Have{}, errors.New("read the answers of the monitors: they name no user and no monitor")
	}
	h := Have{Entities: map[string]Entity{}, Options: map[[2]string]string{}, Rules: map[string]int{}, Pools: map[string]Pool{}}
	for _, a := range auth.Dump {
		h.Entities[a.Entity] = Entity{a.Entity, a.Key, a.Caps}
	}
	for _, o := range config {
		if o.Mask == "" {
			h.Options[[2]string{o.Section, o.Name}] = o.Value
		}
	}
	byID := map[int]string{}
	for _, r := range rules {
		h.Rules[r.Name], byID[r.ID] = r.ID, r.Name
	}
	for _, p := range pools {
		h.Pools[p.Name] = Pool{p.Size, p.MinSize, byID[p.Rule], slices.Sorted(maps.Keys(p.Applications))}
	}
	for _, f := range filesystems {
		h.Filesystems = append(h.Filesystems, f.Name)
	}
	for _, m := range mons.Mons {
		h.Monitors = append(h.Monitors, m.Name)
	}
	slices.Sort(h.Monitors)
	return h, nil
}

// keyMade is the time at which a key was made, which it says itself (src/auth/Crypto.cc of Ceph, CryptoKey::encode: le16
// type, le32 seconds, le32 nanoseconds, le16 length, key).
func keyMade(key string) (time.Time, error) {
	b, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(b) < 12 || len(b) != 12+int(binary.LittleEndian.Uint16(b[10:])) {
		return time.Time{}, errors.New("it is not a key of Ceph")
	}
	return time.Unix(int64(binary.LittleEndian.Uint32(b[2:])), int64(binary.LittleEndian.Uint32(b[6:]))), nil
}
