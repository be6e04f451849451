// Package machineid makes a machine-id(5) that is the same at each boot of one machine in one cluster, though /etc is
// volatile, and that tells nothing about the hardware to those who do not know the cluster id.
package machineid

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Hardware is what is known about the machine.
type Hardware struct {
	// ProductUUID, ProductSerial and BoardSerial are the DMI strings of /sys/class/dmi/id, empty when not there.
	ProductUUID, ProductSerial, BoardSerial string
	// NICs are the physical Ethernet cards.
	NICs []NIC
	// BootDisk is the serial number of the disk that was booted, empty when it has none.
	BootDisk string
}

// NIC is a physical Ethernet card.
type NIC struct {
	// MAC is its permanent address, as aa:bb:cc:dd:ee:ff.
	MAC string
	// USB says that it can be pulled out easily.
	USB bool
}

// Source is the text that a machine-id derives from.
type Source struct {
	// From names it for people, such as "DMI product UUID".
	From string
	Text string
}

// placeholderUUIDs are product UUIDs that vendors ship on many machines.
var placeholderUUIDs = []string{
	"03000200-0400-0500-0006-000700080009", // AMI's default
	"00020003-0004-0005-0006-000700080009", // the same, in the other byte order
	"03020100-0504-0706-0809-0a0b0c0d0e0f", // bytes counted up
	"00010203-0405-0607-0809-0a0b0c0d0e0f",
	"12345678-1234-5678-90ab-cddeefaabbcc", // Supermicro and others
	"78563412-3412-7856-90ab-cddeefaabbcc",
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
	"4c4c4544-0000-2010-8020-80c04f202020", // Dell without a service tag
}

// placeholderSerials are serial numbers that say nothing, in lower case without blanks.
var placeholderSerials = []string{
	"", "none", "n/a", "na", "notspecified", "notapplicable", "notavailable", "unknown", "default", "defaultstring", "empty",
	"tobefilledbyo.e.m.", "tobefilledbyoem", "systemserialnumber", "baseboardserialnumber", "chassisserialnumber", "oem",
	"serialnumber", "invalid", "123456789", "0123456789", "1234567890", "12345678", "xxxxxxxxxxx",
}

// GoodUUID says whether a DMI product UUID can be one machine's own: it is well-formed, not all one digit, and no
// placeholder that vendors are known to ship.
func GoodUUID(uuid string) bool {
	uuid = strings.ToLower(strings.TrimSpace(uuid))
	digits := strings.ReplaceAll(uuid, "-", "")
	if raw, err := hex.DecodeString(digits); err != nil || len(raw) != 16 || len(uuid) != 36 {
		return false
	}
	return !oneDigit(digits) && !slices.Contains(placeholderUUIDs, uuid)
}

// GoodSerial says whether a DMI serial number can be one machine's own.
func GoodSerial(serial string) bool {
	s := strings.ToLower(strings.Join(strings.Fields(serial), ""))
	return len(s) >= 4 && !oneDigit(s) && !slices.Contains(placeholderSerials, s)
}

func oneDigit(s string) bool { return strings.Trim(s, s[:1]) == "" }

// Choose returns the first of these that the machine has: DMI product UUID, lowest permanent MAC (cards in slots before
// those on USB), DMI product serial, DMI board serial, serial number of the boot disk.
func Choose(h Hardware) (Source, bool) {
	if GoodUUID(h.ProductUUID) {
		return Source{From: "DMI product UUID", Text: strings.ToLower(strings.TrimSpace(h.ProductUUID))}, true
	}
	if nic, ok := lowest(h.NICs); ok {
		return Source{From: "permanent MAC " + nic.MAC, Text: nic.MAC}, true
	}
	for _, s := range []Source{{"DMI product serial", h.ProductSerial}, {"DMI board serial", h.BoardSerial}, {"serial number of the boot disk", h.BootDisk}} {
		if GoodSerial(s.Text) {
			s.Text = strings.TrimSpace(s.Text)
			return s, true
		}
	}
	return Source{}, false
}

func lowest(nics []NIC) (NIC, bool) {
	good := slices.DeleteFunc(slices.Clone(nics), func(n NIC) bool {
		digits := strings.ReplaceAll(n.MAC, ":", "")
		return len(digits) != 12 || oneDigit(digits)
	})
	if len(good) == 0 {
		return NIC{}, false
	}
	return slices.MinFunc(good, func(a, b NIC) int {
		if a.USB != b.USB {
			if b.USB {
				return -1
			}
			return 1
		}
		return cmp.Compare(strings.ToLower(a.MAC), strings.ToLower(b.MAC))
	}), true
}

// Derive returns the machine-id, 32 hex digits: the first 16 bytes of HMAC-SHA256 with the cluster id as key over
// "spore machine-id " and the source's text in lower case.
func Derive(clusterID string, s Source) string {
	mac := hmac.New(sha256.New, []byte(clusterID))
	mac.Write([]byte("spore machine-id " + strings.ToLower(s.Text)))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
