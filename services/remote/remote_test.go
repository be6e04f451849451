package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressesOfServers(t *testing.T) {
	for address, want := range map[string]string{
		"log.plant.example:6514": "", "LOG:1": "", "10.0.0.1:65535": "", "[fd00::1]:514": "", "log.plant.example.:514": "",
		"": "has no port", "log": "has no port", "log:": "has a port that is none", "log:0": "has a port that is none",
		"log:65536": "has a port that is none", "log:x": "has a port that is none", "fd00::1:514": "has no port",
		"[fe80::1%eth0]:514": "has a zone", "a_b:514": "has a host that is none", ":514": "has a host that is none",
		"http://log:514": "has no port", "a b:514": "has a host that is none",
	} {
		require.Equal(t, want, BadAddress(address), address)
	}
}

func TestURLsOfServers(t *testing.T) {
	for url, want := range map[string]string{
		"https://a.example": "", "http://a.example:3100/x?y=z": "", "HTTPS://a": "",
		"": "begins with neither http:// nor https://", "a.example": "begins with neither http:// nor https://",
		"ftp://a.example": "begins with neither http:// nor https://",
		"http:///x":       "has no host", "http://:80/": "has no host",
		"https://a:b@c.example": "has a user or a password in it, which have keys of their own",
		"https://a:65536/":      "has a port that is none", "https://a:0": "has a port that is none", "https://a:65535": "",
		"https://a@c.example":    "has a user or a password in it, which have keys of their own",
		"https://a.example/#x":   "has a fragment",
		"https://a.example/\x00": "is malformed", "https://%zz/": "is malformed",
		"https://a.example/" + strings.Repeat("x", maxURL): "is too long",
	} {
		require.Equal(t, want, BadURL(url), url)
	}
}
