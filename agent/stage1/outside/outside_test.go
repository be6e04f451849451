package outside

import (
	"bytes"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// structure is one of a table, with its strings.
func structure(kind byte, body int, texts ...string) []byte {
	out := append([]byte{kind, byte(4 + body), 0, 0}, make([]byte, body)...)
	for _, s := range texts {
		out = append(append(out, s...), 0)
	}
	if len(texts) == 0 {
		out = append(out, 0)
	}
	return append(out, 0)
}

func oem(texts ...string) []byte { return structure(typeOEMStrings, 1, texts...) }

func binary(name string, data []byte) string {
	return "io.systemd.credential.binary:" + name + "=" + base64.StdEncoding.EncodeToString(data)
}

func TestRead(t *testing.T) {
	file := func(data []byte) *fstest.MapFile { return &fstest.MapFile{Data: data} }
	smbios := func(parts ...[]byte) *fstest.MapFile { return file(bytes.Join(parts, nil)) }
	end := structure(typeEnd, 0)
	for name, tc := range map[string]struct {
		sys  fstest.MapFS
		want map[string]string
		said string
	}{
		"nothing is there": {fstest.MapFS{}, nil, ""},
		"a string, and one in base64": {fstest.MapFS{table: smbios(structure(0, 20, "Vendor"), structure(4, 10), oem("x", "io.systemd.credential:spore.node=edge-01", binary("spore.bundle", []byte("a\x00b"))), end)},
			map[string]string{"spore.node": "edge-01", "spore.bundle": "a\x00b"}, ""},
		"an item of fw_cfg goes first": {fstest.MapFS{items + "/spore.bundle/raw": file([]byte("item")), items + "/spore.bundle/size": file([]byte("4")),
			table: smbios(oem("io.systemd.credential:spore.bundle=string"), end)}, map[string]string{"spore.bundle": "item"}, ""},
		"the first of a name": {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore.node=a", "io.systemd.credential:spore.node=b"), end)}, map[string]string{"spore.node": "a"}, ""},
		"all others are left out": {fstest.MapFS{items + "/systemd.extra-unit.x.service/raw": file([]byte("[Service]")),
			table: smbios(oem("io.systemd.credential:tmpfiles.extra=f /etc/x", binary("sysctl.extra", nil), "io.systemd.credential:sporeX=1", "io.systemd.stub.kernel-cmdline-extra=spore.console"), end)},
			nil, "left out 4 credentials of firmware or hypervisor"},
		"a name that is a path":                 {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore./../../x=1"), end)}, nil, "its name is to be"},
		"a name that is too long":               {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore."+strings.Repeat("x", maxName)+"=1"), end)}, nil, "its name is to be"},
		"a name that is only begun":             {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore.=1"), end)}, nil, "its name is to be"},
		"no base64":                             {fstest.MapFS{table: smbios(oem("io.systemd.credential.binary:spore.node=%", "io.systemd.credential:spore.install=x"), end)}, map[string]string{"spore.install": "x"}, "illegal base64"},
		"without a value":                       {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore.node"), end)}, map[string]string{"spore.node": ""}, ""},
		"an item that is too large":             {fstest.MapFS{items + "/spore.bundle/raw": file(make([]byte, maxAll+1))}, nil, "it has more than 1048576 bytes"},
		"all that are too large":                {fstest.MapFS{items + "/spore.a/raw": file(make([]byte, maxAll)), items + "/spore.b/raw": file([]byte("b"))}, map[string]string{"spore.a": string(make([]byte, maxAll))}, "left out the credential spore.b: all of them"},
		"a table that is too large":             {fstest.MapFS{table: file(make([]byte, maxTable+1))}, nil, "cannot be read"},
		"what follows the end is no more of it": {fstest.MapFS{table: smbios(end, oem("io.systemd.credential:spore.node=a"))}, nil, ""},
		"a table that is cut off":               {fstest.MapFS{table: smbios(oem("io.systemd.credential:spore.node=a"), oem("io.systemd.credential:spore.install=a")[:20])}, map[string]string{"spore.node": "a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			taken, said := Read(tc.sys)
			got := map[string]string{}
			for _, c := range taken {
				got[c.Name] = string(c.Data)
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			require.Equal(t, tc.want, got)
			if tc.said == "" {
				require.Empty(t, said)
			} else {
				require.Contains(t, strings.Join(said, "\n"), tc.said)
			}
		})
	}
}

// The table of the machine that the test runs on, where it may be read, is a second opinion of the form.
func TestTheTableOfThisMachineIsRead(t *testing.T) {
	data, err := os.ReadFile("/sys/" + table)
	if err != nil {
		t.Skipf("no table of SMBIOS to read here: %v", err)
	}
	for _, s := range OEMStrings(data) {
		require.NotEmpty(t, s)
	}
}

func FuzzOEMStrings(f *testing.F) {
	f.Add(bytes.Join([][]byte{structure(0, 20, "Vendor", "1"), oem("a", "b"), structure(typeEnd, 0)}, nil))
	f.Add(oem("io.systemd.credential:spore.node=a"))
	f.Add([]byte{11, 3, 0, 0})
	f.Add([]byte{11, 200, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := 0
		for _, s := range OEMStrings(data) {
			require.NotEmpty(t, s)
			require.NotContains(t, string(s), "\x00")
			sum += len(s)
		}
		require.LessOrEqual(t, sum, len(data))
		taken, _ := Read(fstest.MapFS{table: {Data: data}})
		for _, c := range taken {
			require.True(t, good(c.Name))
		}
	})
}
