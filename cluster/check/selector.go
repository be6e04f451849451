package check

import (
	"strings"

	"spore/cluster/form"
	"spore/cluster/identity"
	"spore/cluster/spec"
)

// NamedDisk is a selector in normal form, and where it stands.
type NamedDisk struct {
	Place             Place
	serial, wwn, byID string
}

// MaySelect reports whether two selectors can name one disk: the same text, or a by-id name that holds the other's
// serial or WWN, as udev builds them (60-persistent-storage.rules).
func (a NamedDisk) MaySelect(b NamedDisk) bool {
	same := func(x, y string) bool { return x != "" && x == y }
	holds := func(id string, d NamedDisk) bool {
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
	deviceName = form.New(`^(/dev/)?(sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+)(p?[0-9]+)?$`)
	globs      = "*?[]{}"
)

// Selector checks that a selector names exactly one disk, and brings it into normal form.
func (k *Checker) Selector(p Place, s spec.DiskSelector) (NamedDisk, bool) {
	n := NamedDisk{Place: p}
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
			k.Errorf(p.Then(v.key), "the selector %q is a pattern and can match two disks; write the whole %s of one disk", Clip(v.value), v.key)
			return n, false
		case deviceName.MatchString(v.value):
			k.Errorf(p.Then(v.key), "%q is a kernel name, which moves from disk to disk; write what `spore disks` shows for it", Clip(v.value))
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
			k.Errorf(p.Then("wwn"), "%q is not a World Wide Name; write it as `spore disks` shows it, such as 0x5000c500a1b2c3d4 or eui.0025385b71b0a1b2", Clip(s.WWN))
		}
	default:
		n.byID, ok = s.ByID, k.byID(p.Then("byID"), s.ByID)
	}
	return n, ok
}

func (k *Checker) diskSerial(p Place, s string) (string, bool) {
	if _, err := identity.Normalize(identity.Serial, s); err != nil {
		k.Errorf(p, "the disk serial number %q %v", Clip(s), err)
		return "", false
	}
	if strings.TrimSpace(s) != s {
		k.Errorf(p, "the disk serial number %q has blanks around it; remove them", Clip(s))
		return "", false
	}
	return s, true
}

func (k *Checker) byID(p Place, s string) bool {
	name, path := strings.CutPrefix(s, "/dev/disk/by-id/")
	switch {
	case path:
		k.Errorf(p, "write the name under /dev/disk/by-id alone: %q", Clip(name))
	case spec.WithoutPart(s) != s:
		k.Errorf(p, "%q is a partition; write the name of the whole disk: %q", Clip(s), Clip(spec.WithoutPart(s)))
	case !spec.ValidByID(s):
		k.Errorf(p, "%q is not a name under /dev/disk/by-id; write one such as ata-Samsung_SSD_870_S5Y1NG0R or wwn-0x5000c500a1b2c3d4", Clip(s))
	default:
		return true
	}
	return false
}
