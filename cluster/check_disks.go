package cluster

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/logs"
	"spore/services/metrics"
)

// ourUses are those of every configuration.
var ourUses = []string{"state", "osd", "kafka", metrics.Use, logs.Use}

// singleUses are those of which a node has one disk.
var singleUses = []string{"state", metrics.Use, logs.Use}

// diskUses are what disks can be for: ours, and those of the services that a configuration has of its own.
func diskUses(l *services.List) []string {
	out := slices.Clone(ourUses)
	for _, s := range l.All() {
		for _, use := range slices.Sorted(maps.Keys(s.Disks)) {
			if !slices.Contains(out, use) {
				out = append(out, use)
			}
		}
	}
	return out
}

// roleOfUse is the role whose nodes have disks of a use; empty for a use that every node may have.
func roleOfUse(l *services.List, use string) string {
	for _, s := range l.All() {
		if role := s.Disks[use]; role != "" {
			return role
		}
	}
	return ""
}

// checkDisks checks the disks of one node. Whoever wipes a disk later relies on this: a selector names one disk, and no
// disk is named twice.
func (k *checker) checkDisks(src *source, node int, list []spec.Disk) {
	counts := map[string]int{}
	var seen []namedDisk
	for i, d := range list {
		p := check.In(src, "disks", i)
		if src.Has("disks", i, "use") && k.OneOf(p.Then("use"), "the use of a disk", d.Use, k.uses) {
			if role := roleOfUse(k.list, d.Use); role != "" && !k.HasRole(node, role) {
				k.Errorf(p.Then("use"), "the disk is for %s, but node %s has no role %s; add the role in cluster.yaml or remove the disk", d.Use, k.NodeName(node), role)
			}
			if counts[d.Use]++; counts[d.Use] == 2 && slices.Contains(singleUses, d.Use) {
				k.Errorf(p.Then("use"), "this is the second %s disk; a node has one", d.Use)
			}
		}
		if d.Encrypt && d.Use != "osd" {
			k.Errorf(p.Then("encrypt"), "only disks for osd are encrypted; remove encrypt")
		}
		if !src.Has("disks", i, "selector") {
			continue
		}
		n, ok := k.checkSelector(p.Then("selector"), d.Selector)
		if !ok {
			continue
		}
		for _, other := range seen {
			if n.maySelect(other) {
				k.Errorf(p.Then("selector"), "this selector and the selector of %s can match the same disk; write one entry for each disk", other.place.Where())
				break
			}
		}
		seen = append(seen, n)
	}
}

// namedDisk is a selector in normal form.
type namedDisk struct {
	place             check.Place
	serial, wwn, byID string
}

// maySelect reports whether two selectors can name one disk: the same text, or a by-id name that holds the other's
// serial or WWN, as udev builds them (60-persistent-storage.rules).
func (a namedDisk) maySelect(b namedDisk) bool {
	same := func(x, y string) bool { return x != "" && x == y }
	holds := func(id string, d namedDisk) bool {
		if id == "" {
			return false
		}
		wwn := strings.TrimPrefix(d.wwn, "0x")
		return d.serial != "" && strings.HasSuffix(id, "_"+strings.ReplaceAll(d.serial, " ", "_")) ||
			wwn != "" && (strings.HasSuffix(id, wwn) && (strings.HasPrefix(id, "wwn-") || strings.HasPrefix(id, "nvme-")))
	}
	return same(a.serial, b.serial) || same(strings.TrimPrefix(a.wwn, "0x"), strings.TrimPrefix(b.wwn, "0x")) || same(a.byID, b.byID) ||
		holds(a.byID, b) || holds(b.byID, a)
}

// What a selector cannot be.
var (
	deviceName = regexp.MustCompile(`^(/dev/)?(sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+)(p?[0-9]+)?$`)
	globs      = "*?[]{}"
)

// checkSelector checks that a selector names exactly one disk, and brings it into normal form.
func (k *checker) checkSelector(p check.Place, s spec.DiskSelector) (namedDisk, bool) {
	n := namedDisk{place: p}
	values := []struct{ key, value string }{{"serial", s.Serial}, {"wwn", s.WWN}, {"byID", s.ByID}}
	set := 0
	for _, v := range values {
		if v.value == "" {
			continue
		}
		if set++; set == 2 {
			k.Errorf(p, "a selector has exactly one of serial, wwn and byID, because two could match different disks: keep the serial")
			return n, false
		}
		switch {
		case strings.ContainsAny(v.value, globs):
			k.Errorf(p.Then(v.key), "the selector %q is a pattern and can match two disks; write the whole %s of one disk", check.Clip(v.value), v.key)
			return n, false
		case deviceName.MatchString(v.value):
			k.Errorf(p.Then(v.key), "%q is a kernel name, which moves from disk to disk; write what `spore disks` shows for it", check.Clip(v.value))
			return n, false
		}
	}
	if set == 0 {
		k.Errorf(p, "the selector names no disk; write one of serial, wwn and byID, as `spore disks` shows them")
		return n, false
	}
	var ok bool
	switch {
	case s.Serial != "":
		n.serial, ok = k.diskSerial(p.Then("serial"), s.Serial)
	case s.WWN != "":
		n.wwn, ok = strings.ToLower(s.WWN), spec.ValidWWN(s.WWN)
		if !ok {
			k.Errorf(p.Then("wwn"), "%q is not a World Wide Name; write it as `spore disks` shows it, such as 0x5000c500a1b2c3d4 or eui.0025385b71b0a1b2", check.Clip(s.WWN))
		}
	default:
		n.byID, ok = s.ByID, k.byID(p.Then("byID"), s.ByID)
	}
	return n, ok
}

func (k *checker) diskSerial(p check.Place, s string) (string, bool) {
	if _, err := identity.Normalize(identity.Serial, s); err != nil {
		k.Errorf(p, "the disk serial number %q %v", check.Clip(s), err)
		return "", false
	}
	if strings.TrimSpace(s) != s {
		k.Errorf(p, "the disk serial number %q has blanks around it; remove them", check.Clip(s))
		return "", false
	}
	return s, true
}

func (k *checker) byID(p check.Place, s string) bool {
	name, path := strings.CutPrefix(s, "/dev/disk/by-id/")
	switch {
	case path:
		k.Errorf(p, "write the name under /dev/disk/by-id alone: %q", check.Clip(name))
	case spec.WithoutPart(s) != s:
		k.Errorf(p, "%q is a partition; write the name of the whole disk: %q", check.Clip(s), check.Clip(spec.WithoutPart(s)))
	case !spec.ValidByID(s):
		k.Errorf(p, "%q is not a name under /dev/disk/by-id; write one such as ata-Samsung_SSD_870_S5Y1NG0R or wwn-0x5000c500a1b2c3d4", check.Clip(s))
	default:
		return true
	}
	return false
}
