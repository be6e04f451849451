package identity

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// Kind says what sort of evidence a value is.
type Kind string

// The kinds of the index. Name is the node's own name, which an explicit choice gives.
const (
	Name     Kind = "name"
	MAC      Kind = "mac"
	Serial   Kind = "serial"
	UUID     Kind = "uuid"
	IP       Kind = "ip"
	Hostname Kind = "hostname"
)

// maxValue bounds a value in bytes: a DNS name has at most 253 (RFC 1035, section 2.3.4), SMBIOS strings are shorter.
const maxValue = 256

// Normalize brings a value into the one form that the index holds and that is compared. The error says why the value
// cannot identify a machine: it has no valid form, or it is one that vendors give to many machines.
func Normalize(kind Kind, value string) (string, error) {
	if len(value) > maxValue {
		return "", fmt.Errorf("is longer than %d bytes", maxValue)
	}
	switch kind {
	case MAC:
		return normalMAC(value)
	case UUID:
		return normalUUID(value)
	case Serial:
		return normalSerial(value)
	case IP:
		return normalIP(value)
	case Hostname, Name:
		return normalName(value)
	}
	return "", fmt.Errorf("has the unknown kind %q", kind)
}

var separators = strings.NewReplacer(":", "", "-", "", ".", "")

// normalMAC accepts 52:54:00:aa:bb:cc, 52-54-00-AA-BB-CC, 5254.00aa.bbcc and 525400aabbcc.
func normalMAC(s string) (string, error) {
	var ok bool
	switch len(s) {
	case 17:
		ok = separated(s, 2, ':') || separated(s, 2, '-')
	case 14:
		ok = separated(s, 4, '.')
	case 12:
		ok = true
	}
	b, err := hex.DecodeString(separators.Replace(s))
	if !ok || err != nil || len(b) != 6 {
		return "", fmt.Errorf("is not a MAC address; write six pairs of hexadecimal digits such as 52:54:00:12:34:56")
	}
	mac := fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
	switch {
	case mac == "00:00:00:00:00:00":
		return "", fmt.Errorf("is the all-zero address, which cannot belong to a network card")
	case mac == "ff:ff:ff:ff:ff:ff":
		return "", fmt.Errorf("is the broadcast address, which cannot belong to a network card")
	case b[0]&1 != 0: // IEEE 802-2014, section 8.2: the I/G bit.
		return "", fmt.Errorf("is a multicast address (the first byte is odd), which cannot belong to a network card")
	}
	return mac, nil
}

// separated reports whether s is groups of n characters with sep between them.
func separated(s string, n int, sep byte) bool {
	for i := range len(s) {
		if (s[i] == sep) != (i%(n+1) == n) {
			return false
		}
	}
	return true
}

// fakeUUIDs are shipped by vendors in many machines.
var fakeUUIDs = map[string]bool{
	"03000200-0400-0500-0006-000700080009": true, // AMI's default.
	"00020003-0004-0005-0006-000700080009": true, // The same in the other byte order.
	"12345678-1234-5678-90ab-cddeefaabbcc": true,
	"00112233-4455-6677-8899-aabbccddeeff": true,
	"fefefefe-fefe-fefe-fefe-fefefefefefe": true,
}

// normalUUID accepts 8-4-4-4-12, 32 digits, braces and urn:uuid:.
func normalUUID(s string) (string, error) {
	l := strings.ToLower(strings.TrimSpace(s))
	l = strings.TrimPrefix(l, "urn:uuid:")
	if strings.HasPrefix(l, "{") && strings.HasSuffix(l, "}") {
		l = l[1 : len(l)-1]
	}
	if len(l) == 36 && l[8] == '-' && l[13] == '-' && l[18] == '-' && l[23] == '-' {
		l = l[:8] + l[9:13] + l[14:18] + l[19:23] + l[24:]
	}
	b, err := hex.DecodeString(l)
	if err != nil || len(b) != 16 {
		return "", fmt.Errorf("is not a UUID; write it as 8-4-4-4-12 hexadecimal digits, as in /sys/class/dmi/id/product_uuid")
	}
	h := hex.EncodeToString(b)
	u := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	if fakeUUIDs[u] || strings.Count(h, h[:1]) == len(h) {
		return "", fmt.Errorf("is a placeholder that vendors put into many machines; it identifies no machine")
	}
	return u, nil
}

// fakeSerials are what vendors leave in SMBIOS where a serial number belongs, in normal form.
var fakeSerials = map[string]bool{
	"to be filled by o.e.m.": true, "to be filled by o.e.m": true, "to be filled by oem": true,
	"default string": true, "system serial number": true, "serial number": true, "chassis serial number": true,
	"base board serial number": true, "not specified": true, "not applicable": true, "not available": true,
	"n/a": true, "na": true, "none": true, "null": true, "unknown": true, "invalid": true, "empty": true, "oem": true,
	"o.e.m.": true, "o.e.m": true, "type1family": true, "xxxxxxx": true, "sernum": true, "0123456789": true,
	"123456789": true, "1234567890": true, "12345678": true, "01234567890123456789ab": true, "default": true,
	"system product name": true, "...............": true, "not settable": true, "not present": true, "undefined": true,
	"standard": true, "ffffffff": true, "empty string": true, "03142016": true,
}

// normalSerial trims and folds case and runs of blanks, since people copy serial numbers from labels.
func normalSerial(s string) (string, error) {
	if !printable(s) {
		return "", fmt.Errorf("has characters that are not printable ASCII")
	}
	l := strings.ToLower(strings.Join(strings.Fields(s), " "))
	if l == "" {
		return "", fmt.Errorf("is empty")
	}
	if fakeSerials[l] || (len(l) > 1 && strings.Count(l, l[:1]) == len(l)) || len(l) == 1 {
		return "", fmt.Errorf("is a placeholder that vendors put into many machines; it identifies no machine")
	}
	return l, nil
}

func normalIP(s string) (string, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return "", fmt.Errorf("is not an IP address; write it as 10.0.0.5 or fd00::5, without prefix length")
	}
	a = a.Unmap()
	switch {
	case a.Zone() != "":
		return "", fmt.Errorf("has a zone; write the address alone")
	case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "", fmt.Errorf("is not the address of one machine")
	case a.IsLinkLocalUnicast():
		return "", fmt.Errorf("is a link-local address, which is not stable")
	}
	return a.String(), nil
}

// normalName folds case and drops the dot that ends an absolute DNS name.
func normalName(s string) (string, error) {
	l := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(s), "."))
	if l == "" {
		return "", fmt.Errorf("is empty")
	}
	for _, c := range []byte(l) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.') {
			return "", fmt.Errorf("is not a DNS name (letters, digits, - and .)")
		}
	}
	if strings.Contains("."+l+".", "..") {
		return "", fmt.Errorf("is not a DNS name: a label between two dots is empty")
	}
	if l == "localhost" || strings.HasPrefix(l, "localhost.") {
		return "", fmt.Errorf("is a name that every machine has")
	}
	return l, nil
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
