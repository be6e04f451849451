package filecap

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsAreThoseOfSetcap(t *testing.T) {
	// setcap TEXT FILE; getfattr -n security.capability -e hex FILE
	for text, want := range map[string]struct{ value, text string }{
		"cap_net_raw=ep":                                {"0100000200200000000000000000000000000000", ""},
		"cap_net_raw+ep":                                {"0100000200200000000000000000000000000000", "cap_net_raw=ep"},
		"CAP_NET_RAW=pe":                                {"0100000200200000000000000000000000000000", "cap_net_raw=ep"},
		"cap_net_raw,cap_net_admin=eip":                 {"0100000200300000003000000000000000000000", "cap_net_admin,cap_net_raw=eip"},
		"cap_net_raw=p cap_chown=i":                     {"0000000200200000010000000000000000000000", "cap_net_raw=p cap_chown=i"},
		"cap_perfmon=ep":                                {"0100000200000000000000004000000000000000", ""},
		"cap_net_raw=eip-i":                             {"0100000200200000000000000000000000000000", "cap_net_raw=ep"},
		"cap_net_raw,cap_chown=p cap_chown= cap_kill+p": {"0000000220200000000000000000000000000000", "cap_kill,cap_net_raw=p"},
	} {
		t.Run(text, func(t *testing.T) {
			s, err := Parse(text)
			require.NoError(t, err)
			require.Equal(t, want.value, hex.EncodeToString(s.Value()))
			if want.text == "" {
				want.text = text
			}
			require.Equal(t, want.text, s.String())
			back, err := ParseValue(s.Value())
			require.NoError(t, err)
			require.Equal(t, s, back)
		})
	}
}

func TestTextsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no capability is named",
		"cap_net_raw":                 "has no =, + or -",
		"net_raw=ep":                  `"net_raw" is not a capability`,
		"cap_net_row=ep":              `"cap_net_row" is not a capability`,
		"all=ep":                      `"all" is not a capability`,
		"=ep":                         `"" is not a capability`,
		"cap_net_raw=x":               "behind = are the letters",
		"cap_net_raw+":                "behind + are the letters",
		"cap_net_raw=":                "it gives no capability",
		"cap_net_raw=ep cap_chown=p":  "effective or none",
		"cap_net_raw=e":               "it gives no capability",
		strings.Repeat("cap_x,", 999): "at most 4096",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Parse(text)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestValuesOfOtherRevisions(t *testing.T) {
	for value, want := range map[string]string{
		"010000010020000000000000":                         "cap_net_raw=ep",
		"010000030020000000000000000000000000000000000000": "cap_net_raw=ep",
		"0000000200000000000000000000008000000000":         "63=p",
	} {
		data, err := hex.DecodeString(value)
		require.NoError(t, err)
		s, err := ParseValue(data)
		require.NoError(t, err)
		require.Equal(t, want, s.String())
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for value, want := range map[string]string{
		"":       "has 0 bytes",
		"010000": "has 3 bytes",
		"0100000400200000000000000000000000000000":         "unknown form",
		"0300000200200000000000000000000000000000":         "unknown form",
		"01000002002000000000000000000000000000":           "unknown form",
		"010000030020000000000000000000000000000001000000": "user namespace of user 1",
	} {
		data, err := hex.DecodeString(value)
		require.NoError(t, err)
		_, err = ParseValue(data)
		require.ErrorContains(t, err, want, value)
	}
}

func TestEveryCapabilityHasAName(t *testing.T) {
	require.Equal(t, "cap_chown", Names()[0])
	require.Equal(t, "cap_net_raw", Names()[13])
	require.Equal(t, "cap_setfcap", Names()[31])
	require.Equal(t, "cap_checkpoint_restore", Names()[40])
	require.Len(t, Names(), 41)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"cap_net_raw=ep", "cap_net_raw+p cap_chown=eip-e", "=", ",=p"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

func FuzzParseValue(f *testing.F) {
	f.Add(Set{Permitted: 1 << 40, Effective: true}.Value())
	f.Add([]byte{1, 0, 0, 3})
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := ParseValue(value)
		if err != nil {
			return
		}
		again, err := ParseValue(s.Value())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
