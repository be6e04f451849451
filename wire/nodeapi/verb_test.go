package nodeapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a verb with all that a row can have.
func sample() Verb {
	return Verb{Name: "burn", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Arguments: []Argument{
		{Name: "disk", Needed: true}, {Name: "times", Check: number(1, 3)}, {Name: "how", Check: OneOf("slowly", "fast")},
	}}
}

func TestOnlyACompleteOrderIsCarriedOut(t *testing.T) {
	disk := map[string]string{"disk": "S5H9"}
	with := func(name, value string) map[string]string { return map[string]string{"disk": "S5H9", name: value} }
	for _, tc := range []struct {
		name  string
		order Order
		want  string
	}{
		{"whole", Order{Arguments: disk, Confirm: "S5H9"}, ""},
		{"with all", Order{Arguments: map[string]string{"disk": "S5H9", "times": "3", "how": "fast"}, Confirm: "S5H9", Force: "etcd"}, ""},
		{"an empty value is one that was left out", Order{Arguments: with("times", ""), Confirm: "S5H9"}, ""},
		{"a dry run needs no word", Order{Arguments: disk, DryRun: true}, ""},
		{"without the word", Order{Arguments: disk}, "burn destroys something; the order has to repeat what (confirm)"},
		{"without what is needed", Order{Confirm: "S5H9"}, "burn: disk is missing"},
		{"an argument that there is not", Order{Arguments: with("depth", "1"), Confirm: "x"}, `burn has no argument "depth"`},
		{"too many", Order{Arguments: with("times", "4"), Confirm: "x"}, `burn: times: "4" is not a number from 1 to 3`},
		{"no number", Order{Arguments: with("times", "1e3"), Confirm: "x"}, `burn: times: "1e3" is not a number from 1 to 3`},
		{"another word", Order{Arguments: with("how", "well"), Confirm: "x"}, `burn: how: "well" is not one of [slowly fast]`},
		{"a newline", Order{Arguments: with("disk", "a\nb"), Confirm: "x"}, "burn: disk: a value is text of at most 4096 bytes without control characters"},
		{"an escape of C1", Order{Arguments: with("disk", "a\u009bb"), Confirm: "x"}, "burn: disk: a value is text"},
		{"no UTF-8", Order{Arguments: with("disk", "a\xffb"), Confirm: "x"}, "burn: disk: a value is text"},
		{"too long", Order{Arguments: with("disk", strings.Repeat("a", maxArgument+1)), Confirm: "x"}, "burn: disk: a value is text"},
		{"a word with an escape", Order{Arguments: disk, Confirm: "a\x1b"}, "burn: confirm and force are words without control characters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := sample().Check(tc.order)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
	plainVerb := Verb{Name: "look", Kind: Looks}
	require.ErrorContains(t, plainVerb.Check(Order{Force: "etcd"}), "look cannot be forced")
}

func TestAnOrderIsOneObjectOfKnownKeys(t *testing.T) {
	o, err := ParseOrder([]byte(`{"arguments":{"disk":"x"},"dryRun":true,"confirm":"c","force":"f"}`))
	require.NoError(t, err)
	require.Equal(t, Order{Arguments: map[string]string{"disk": "x"}, DryRun: true, Confirm: "c", Force: "f"}, o)
	for text, want := range map[string]string{
		``: "malformed", `[]`: "malformed", `{"arguments":{"a":1}}`: "malformed", `{"root":true}`: `unknown field "root"`,
		`{}{}`: "something follows it", `{"confirm":"` + strings.Repeat("x", MaxOrder) + `"}`: "at most 16384 bytes",
	} {
		_, err := ParseOrder([]byte(text))
		require.ErrorContains(t, err, want, "%.40s", text)
	}
}

func FuzzParseOrder(f *testing.F) {
	f.Add([]byte(`{"arguments":{"disk":"x"},"dryRun":true}`))
	f.Add([]byte(`{"arguments":{"disk":"\u0000"},"confirm":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseOrder(data)
		if err == nil && sample().Check(o) == nil {
			require.True(t, plain(o.Arguments["disk"]))
		}
	})
}

func TestEventsEndWithWhatWasDoneOrWhyNot(t *testing.T) {
	read := func(text string) (seen []Event, done string, err error) {
		done, err = ReadEvents(strings.NewReader(text), func(e Event) error {
			seen = append(seen, e)
			return nil
		})
		return seen, done, err
	}
	seen, done, err := read("{\"say\":\"one\"}\n\n{\"result\":{\"a\":1}}\n{\"done\":\"all\"}\n")
	require.NoError(t, err)
	require.Equal(t, "all", done)
	require.Equal(t, []Event{{Say: "one"}, {Result: []byte(`{"a":1}`)}}, seen)
	_, _, err = read("{\"error\":\"no \\u001b[1m disk\"}\n")
	require.ErrorAs(t, err, new(Failed))
	require.EqualError(t, err, `no \x1b[1m disk`)
	_, _, err = read("{\"error\":\"no disk\\nand\\r no \\u001b[1m\"}\n")
	require.EqualError(t, err, "no disk\nand\\x0d no \\x1b[1m", "lines stay lines")
	_, done, err = read("{\"done\":\"one\\ntwo\\u0007\"}\n")
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\\x07", done)
	_, _, err = read("{\"say\":\"one\"}\n")
	require.ErrorContains(t, err, "the connection was lost, or the node stopped")
	_, _, err = read("nonsense\n")
	require.ErrorContains(t, err, "malformed")
	_, _, err = read(`{"say":"` + strings.Repeat("x", MaxEvent) + "\"}\n")
	require.ErrorContains(t, err, "more than 1048576 bytes")
}

func FuzzReadEvents(f *testing.F) {
	f.Add("{\"say\":\"one\"}\n{\"done\":\"all\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		done, err := ReadEvents(strings.NewReader(text), func(Event) error { return nil })
		require.True(t, err != nil || done != "")
	})
}

func TestEachRoleMayWhatTheLesserMay(t *testing.T) {
	for _, tc := range []struct {
		has, need Role
		want      bool
	}{
		{Reader, Reader, true}, {Reader, Operator, false}, {Reader, Admin, false},
		{Operator, Reader, true}, {Operator, Operator, true}, {Operator, Admin, false},
		{Admin, Reader, true}, {Admin, Operator, true}, {Admin, Admin, true},
		{Node, Reader, false}, {Admin, Node, false}, {Node, Node, true},
	} {
		require.Equal(t, tc.want, tc.has.Covers(tc.need), "%s for %s", tc.has, tc.need)
	}
	require.Equal(t, Reader, Least(Lookers()))
	require.Equal(t, Operator, Least(Hands()))
	require.Equal(t, Admin, Least(Owners()))
	require.Empty(t, Least([]Role{Node}))
}

func TestEachRowOfTheTableIsWhole(t *testing.T) {
	for _, v := range Verbs() {
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, v.Name)
		require.Contains(t, []Kind{Looks, Acts}, v.Kind, v.Name)
		require.NotEmpty(t, Least(v.Who), v.Name)
		if v.Name != OSDSafe { // What nodes must know of Ceph before they leave it.
			require.NotContains(t, v.Who, Node, v.Name)
		}
		if v.Kind == Acts {
			require.NotContains(t, v.Who, Reader, "%s changes something, and a reader looks", v.Name)
		}
		if v.Destroys {
			require.Equal(t, Owners(), v.Who, "%s destroys something", v.Name)
		}
	}
}

func TestArgumentsOfVerbsAreHeldToTheirForm(t *testing.T) {
	for _, tc := range []struct {
		verb, name, good, bad, want string
	}{
		{"alerts-silence", "name", "NodeSilent", " ", "a label's value is text of 1 to 512 bytes"},
		{"alerts-silence", "name", "Presse hält", strings.Repeat("a", 513), "a label's value is text of 1 to 512 bytes"},
		{"alerts-silence", "node", "edge-01", "edge 01", "is not a name"},
		{"alerts-silence", "labels", `{"job":"press"}`, `{"job":""}`, "job: a label's value is text of 1 to 512 bytes"},
		{"alerts-silence", "labels", `{"_a1":"x, y=\"z\""}`, `{"1a":"x"}`, `"1a" is not the name of a label`},
		{"alerts-silence", "for", "5m", "4m59s", "is not a time from 5m0s to 720h0m0s"},
		{"alerts-silence", "for", "720h", "720h1s", "is not a time from 5m0s to 720h0m0s"},
		{"alerts-silence", "comment", "new power supply", strings.Repeat("a", 1001), "a comment is text of 1 to 1000 bytes"},
		{"alerts-unsilence", "id", "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4", "3d1219c7-c4c5-404a-aa1f-6d2a48adfd/4", "is not the ID of a silence"},
		{"alerts-unsilence", "id", "00000000-0000-0000-0000-000000000000", "3D1219C7-c4c5-404a-aa1f-6d2a48adfda4", "is not the ID of a silence"},
		{"capture", "filter", "tcp port 443 and host 10.0.0.1", "port http", "is not a port number"},
		{"capture", "interface", "vlan.12@eth0", "eth0/../x", "is not the name of an interface"},
		{"capture", "interface", "any", "sixteencharacter", "is not the name of an interface"},
		{"capture", "interface", "cali-1", "..", "is not the name of an interface"},
		{"capture", "seconds", "600", "601", "is not a number from 1 to 600"},
		{"capture", "snap", "64", "63", "is not a number from 64 to 65535"},
		{"capture", "api", "yes", "maybe", "is not one of"},
		{"probe", "target", "[2001:db8::1%eth0]:443", "a b", "is not a name or an address"},
		{"probe", "target", "kafka-01.plant.example:9093", strings.Repeat("a", 261), "is not a name or an address"},
		{"probe", "target", "a_b", "$(reboot)", "is not a name or an address"},
		{"probe", "server", "10.0.0.1", "dns.example", "is not an IP address"},
		{"probe", "count", "20", "21", "is not a number from 1 to 20"},
		{"probe", "kind", "dns", "smtp", "is not one of"},
		{"top", "rows", "1000", "0", "is not a number from 1 to 1000"},
		{"top", "summary", "yes", "true", "is not one of"},
	} {
		v, found := FindVerb(tc.verb)
		require.True(t, found)
		order := func(value string) Order {
			o := Order{Arguments: map[string]string{tc.name: value}}
			for _, a := range v.Arguments {
				if a.Needed && a.Name != tc.name {
					o.Arguments[a.Name] = map[string]string{"kind": "ping", "target": "a", "for": "2h", "comment": "why"}[a.Name]
				}
			}
			return o
		}
		require.NoError(t, v.Check(order(tc.good)), tc.good)
		require.ErrorContains(t, v.Check(order(tc.bad)), tc.want, tc.bad)
	}
}
