package smbios

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, tc := range map[string]struct {
		sys  fstest.MapFS
		want System
	}{
		"both are read and trimmed": {
			fstest.MapFS{"class/dmi/id/product_serial": file(" CZ1 \n"), "class/dmi/id/product_uuid": file("4c4c4544-0043-4a10-8052-b4c04f4d3333\n")},
			System{Serial: "CZ1", UUID: "4c4c4544-0043-4a10-8052-b4c04f4d3333"},
		},
		"a machine without SMBIOS has neither": {fstest.MapFS{}, System{}},
		"a value that is too long is none":     {fstest.MapFS{"class/dmi/id/product_serial": file(strings.Repeat("x", 300))}, System{}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Read(tc.sys)) })
	}
}
