// Package snapshot keeps the encrypted snapshots of etcd that a master has: its own and those of the other masters. It says
// what is there, which are too many, when the next one is due, and whether there is room; it hands them to other masters and
// gets what they have.
//
// A snapshot is one file that is there whole or not at all: it is written under another name, synced, and renamed. Its name
// holds its hash, so that whoever has no key to it can tell a damaged one as well. What is in it is the business of package
// sealing. This package knows nothing of etcd: the node API serves the files with it.
//
// It trusts other masters no further than their certificates go: they may withhold a snapshot or hand an old one, and can
// fill no more of the disk than the settings and the reserve allow.
package snapshot

import (
	"cmp"
	"slices"
	"time"

	"spore/wire/nodeapi"
)

// Name is the name of a snapshot's file, and Entry a snapshot that a node has.
type (
	Name  = nodeapi.SnapshotName
	Entry = nodeapi.Snapshot
)

// ahead is how far in the future a snapshot may have been taken before its clock is taken to have been wrong.
const ahead = time.Hour

// Sort puts the newest first. Those of a clock that was ahead of ours come last: they would be the newest for years.
func Sort(list []Entry, now time.Time) {
	slices.SortFunc(list, func(a, b Entry) int {
		if fa, fb := wrong(a, now), wrong(b, now); fa != fb {
			if fa {
				return 1
			}
			return -1
		}
		return cmp.Or(b.Name.Taken.Compare(a.Name.Taken), cmp.Compare(b.Name.Revision, a.Name.Revision), cmp.Compare(a.Name.String(), b.Name.String()))
	})
}

func wrong(e Entry, now time.Time) bool { return e.Name.Taken.After(now.Add(ahead)) }

// Newest returns the newest snapshot that no wrong clock has dated.
func Newest(list []Entry, now time.Time) (Entry, bool) {
	list = slices.Clone(list)
	Sort(list, now)
	if len(list) == 0 || wrong(list[0], now) {
		return Entry{}, false
	}
	return list[0], true
}

// Keep says how many snapshots are kept.
type Keep struct {
	// Newest is how many of the newest, at least 1; Days of how many days (UTC) the last one of each, besides.
	Newest, Days int
}

// Choose divides snapshots into those to keep, newest first, and the others.
func (k Keep) Choose(list []Entry, now time.Time) (keep, drop []Entry) {
	list = slices.Clone(list)
	Sort(list, now)
	days := map[string]bool{}
	for i, e := range list {
		day := e.Name.Taken.UTC().Format(time.DateOnly)
		switch {
		case i < max(k.Newest, 1):
		case !wrong(e, now) && !days[day] && len(days) < k.Days:
		default:
			drop = append(drop, e)
			continue
		}
		if !wrong(e, now) {
			days[day] = true
		}
		keep = append(keep, e)
	}
	return keep, drop
}

// turn is how much longer than the one before it in the list of masters a master waits before it takes a snapshot: time for
// the other one's to arrive.
const turn = 7 * time.Minute

// Due tells whether a master is to take a snapshot. One is taken each interval by one master, usually the first of the
// list of masters; rank is this one's place there, from 0.
func Due(list []Entry, now time.Time, interval time.Duration, rank int) bool {
	newest, ok := Newest(list, now)
	if !ok {
		return true
	}
	return now.Sub(newest.Name.Taken) >= interval+time.Duration(rank)*turn
}
