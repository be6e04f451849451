package dataversion_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/dataversion"
)

func TestVersionsOfManifests(t *testing.T) {
	for text, want := range map[string][3]int{
		"v3.6.16":                    {3, 6, 16},
		"4.3.1":                      {4, 3, 1},
		"18.2.7+ds-1+deb13u1":        {18, 2, 7},
		"1:2.0.21-1":                 {2, 0, 21},
		"2.0":                        {2, 0, 0},
		"v2.0.0+incompatible":        {2, 0, 0},
		"6.12.118.1-1":               {6, 12, 118},
		"999999999.0.0":              {999999999, 0, 0},
		"v1.36.3-spore.1":            {1, 36, 3},
		"16.2.15+ds-0+deb12u2~bpo11": {16, 2, 15},
	} {
		v, err := dataversion.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, [3]int{v.Major, v.Minor, v.Patch}, text)
		require.False(t, v.Pre, text)
	}
	for _, text := range []string{"v3.7.0-rc.1", "3.7.0~rc1-1", "v1.37.0-alpha.0", "4.4.0-SNAPSHOT", "v0.0.0-20251021213802-b1f3c43f8437", "v3.6.1-0.20251021213802-b1f3c43f8437", "1.0.0-beta2"} {
		v, err := dataversion.Parse(text)
		require.NoError(t, err, text)
		require.True(t, v.Pre, text)
	}
	for _, text := range []string{
		"", "v", "3", "latest", "(devel)", "3.", ".3", "3..6", "v3.6.x", "3.6 ", " 3.6", "3.6.16\n", "-3.6", "3.6.16 foo", "3.6!", "99999999999.1",
		"1.2.3.4.5.6", "1:2:3.4", "12345:1.2", "vv1.2", "1.2" + strings.Repeat("+x", 100), "١.٢",
	} {
		_, err := dataversion.Parse(text)
		require.ErrorContains(t, err, "is not a version", text)
	}
}

func TestTheOrderOfVersions(t *testing.T) {
	order := []string{"1:2.0.3-9", "v2.0.21", "2.1", "2.1.0.1", "2.1.1", "v2.10.0", "10.0", "10.0.1+ds-1"}
	for i, a := range order {
		for j, b := range order {
			x, err := dataversion.Parse(a)
			require.NoError(t, err)
			y, err := dataversion.Parse(b)
			require.NoError(t, err)
			require.Equal(t, sign(i-j), dataversion.Compare(x, y), "%s %s", a, b)
		}
	}
	x, _ := dataversion.Parse("2.1")
	y, _ := dataversion.Parse("v2.1.0-1+deb13u1")
	require.Zero(t, dataversion.Compare(x, y), "what a distribution adds is not looked at")
	require.Equal(t, "2.1", y.Series())
}

func sign(n int) int { return max(-1, min(1, n)) }

// rows are two kinds of data of one test service, and a program without any.
func rows() []dataversion.Row {
	judge := func(newer, older dataversion.Version) (dataversion.Verdict, string) {
		if newer.SameSeries(older) {
			return dataversion.Safe, "a patch"
		}
		return dataversion.Unsafe, "a series back"
	}
	return []dataversion.Row{
		{Name: "store", Roles: []string{"master"}, Payload: "store", Source: "its documentation", Judge: judge},
		{Name: "queue", Roles: []string{"broker", "controller"}, Package: "queue-server", Source: "its code", Judge: judge},
		{Name: "names", Roles: []string{"dns"}, Payload: "names"},
	}
}

func TestTheWayBackOfOneRow(t *testing.T) {
	for name, tt := range map[string]struct {
		newer, older string
		want         dataversion.Verdict
		why          string
	}{
		"the same":                   {"v3.6.1", "v3.6.1", dataversion.Safe, "it is the same version"},
		"the same garbage":           {"(devel)", "(devel)", dataversion.Safe, "it is the same version"},
		"a patch":                    {"v3.6.2", "v3.6.1", dataversion.Safe, "a patch"},
		"a series":                   {"v3.7.0", "v3.6.1", dataversion.Unsafe, "a series back"},
		"forward":                    {"v3.6.1", "v3.7.0", dataversion.Safe, "it is no older release"},
		"another build of a release": {"3.6.1-2", "3.6.1-1", dataversion.Safe, "it is no older release"},
		"new in the newer":           {"v3.6.1", "", dataversion.Safe, "the older system does not have it, and leaves its data as it is"},
		"gone in the newer":          {"", "v3.6.1", dataversion.Safe, "the newer system does not have it, and wrote nothing"},
		"a newer that is garbage":    {"main", "v3.6.1", dataversion.Unknown, `"main" is not a version such as v3.6.16 or 18.2.7+ds-1`},
		"an older that is garbage":   {"v3.6.1", "(devel)", dataversion.Unknown, `"(devel)" is not a version such as v3.6.16 or 18.2.7+ds-1`},
		"a candidate":                {"v3.6.1-rc.0", "v3.6.0", dataversion.Unknown, "one of the versions is no release"},
		"back to a candidate":        {"v3.6.1", "v3.6.1-rc.0", dataversion.Unknown, "one of the versions is no release"},
	} {
		w := rows()[0].Back(tt.newer, tt.older)
		require.Equal(t, tt.want, w.Verdict, name)
		require.Equal(t, tt.why, w.Why, name)
		require.Equal(t, []string{tt.newer, tt.older}, []string{w.Newer, w.Older}, name)
		require.Equal(t, tt.why == "a patch" || tt.why == "a series back", w.Source == "its documentation", name)
	}
	require.Equal(t, "the way back of store from v3.7.0 to v3.6.1 is unsafe: a series back", rows()[0].Back("v3.7.0", "v3.6.1").String())
	w := rows()[2].Back("v2.0.0", "v1.0.0")
	require.Equal(t, dataversion.Safe, w.Verdict)
	require.Equal(t, "it keeps nothing between two starts", w.Why)
}

func TestTheWayBackOfSystems(t *testing.T) {
	newer := map[string]string{"store": "v3.7.0", "queue": "4.1.1", "ledger": "2.0", "mirror": "1.0", "added": "1.0"}
	older := map[string]string{"store": "v3.6.1", "queue": "4.1.0", "ledger": "1.0", "mirror": "1.0", "gone": "1.0"}
	verdicts := func(ways []dataversion.Way) (out []string) {
		for _, w := range ways {
			out = append(out, fmt.Sprintf("%s %s", w.Data, w.Verdict))
		}
		return out
	}
	for name, tt := range map[string]struct {
		roles []string
		want  []string
	}{
		"all nodes":                {nil, []string{"store unsafe", "queue safe", "ledger unknown"}},
		"a node with one role":     {[]string{"controller"}, []string{"queue safe", "ledger unknown"}},
		"a node without any of it": {[]string{"edge"}, []string{"ledger unknown"}},
	} {
		require.Equal(t, tt.want, verdicts(dataversion.Back(rows(), newer, older, tt.roles)), name)
	}
	require.Empty(t, dataversion.Back(rows(), nil, nil, nil))
	ways := dataversion.Back(rows(), newer, older, nil)
	require.Equal(t, []string{"store unsafe"}, verdicts(dataversion.Only(ways, dataversion.Unsafe)))
	require.Equal(t, []string{"ledger unknown"}, verdicts(dataversion.Only(ways, dataversion.Unknown)))
	require.Equal(t, verdicts(ways), verdicts(dataversion.Back(rows(), maps.Clone(newer), maps.Clone(older), nil)), "always in one order")
}

const manifest = `{"format":1,"packages":[{"name":"queue-server","version":"4.1.1-2","architecture":"amd64"},{"name":"other","version":"x"},
 {"name":"store","version":"9.9"}],
 "payloads":[{"name":"store","version":"v3.6.16"},{"name":"names","version":"v1.0.0"},{"name":"storehouse","version":"v7.0.0"}],"files":[]}`

func TestVersionsAreReadFromAManifest(t *testing.T) {
	got, err := dataversion.ReadVersions(strings.NewReader(manifest), rows())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"store": "v3.6.16", "queue": "4.1.1-2"}, got)

	kafka := []dataversion.Row{{Name: "kafka", Payload: "kafka", Judge: rows()[0].Judge}}
	got, err = dataversion.ReadVersions(strings.NewReader(`{"payloads":[{"name":"kafka/jackson-2.21.jar","version":"2.21","artifact":{"group":"g"}},
		{"name":"kafka/kafka-tool","version":"4.3.1"},{"name":"kafka/log4j2.properties","version":"4.3.1"}]}`), kafka)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kafka": "4.3.1"}, got, "jars have versions of their own")

	own := []dataversion.Row{{Name: "queue", Own: "spore-queue", Format: "2.0", Judge: rows()[0].Judge}}
	for text, want := range map[string]map[string]string{
		`{"payloads":[{"name":"spore-queue","version":"v9.0.0","format":"1.0"},{"name":"other","format":"3.0"}]}`: {"queue": "1.0"},
		`{"payloads":[{"name":"spore-queue","version":"v9.0.0"}]}`:                                                {},
	} {
		got, err = dataversion.ReadVersions(strings.NewReader(text), own)
		require.NoError(t, err)
		require.Equal(t, want, got, "the image's format, and not the one of who reads its manifest")
	}

	got, err = dataversion.ReadVersions(strings.NewReader(`{"packages":[{"name":"queue-server","version":"1.0","absent":true}]}`), rows())
	require.NoError(t, err)
	require.Empty(t, got, "all of the package's files were left out")
}

func TestAManifestThatCannotBeReadIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"":     "read the manifest of an image: EOF",
		"[]":   "read the manifest of an image: json",
		"{":    "read the manifest of an image: unexpected EOF",
		"null": "",
		`{"payloads":[{"name":"store","version":"v1.0.0"},{"name":"store/b","version":"v2.0.0"}]}`:          `find the version of store in the manifest of an image: it has two, "v1.0.0" and "v2.0.0"`,
		`{"packages":[{"name":"queue-server","version":"1.0"},{"name":"queue-server","version":"1.1"}]}`:    "it has two",
		`{"packages":[{"name":"queue-server","version":"` + strings.Repeat("1", 200) + `"}],"payloads":[]}`: "the version of queue has 200 bytes; it has 1 to 128",
	} {
		_, err := dataversion.ReadVersions(strings.NewReader(text), rows())
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
	_, err := dataversion.ReadVersions(broken{}, rows())
	require.ErrorContains(t, err, "the disk is gone")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestWhatAnUpdateSaysIsBounded(t *testing.T) {
	require.NoError(t, dataversion.Check(nil))
	require.NoError(t, dataversion.Check(map[string]string{"etcd": "v3.6.16", "x-1": "(devel)"}))
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("a%d", i)] = "1.0"
	}
	for want, bad := range map[string]map[string]string{
		"65 kinds of data":             many,
		`"" is not the name`:           {"": "1.0"},
		`"Etcd" is not the name`:       {"Etcd": "1.0"},
		`"../x" is not the name`:       {"../x": "1.0"},
		"the version of etcd has 0":    {"etcd": ""},
		"the version of etcd has 1000": {"etcd": strings.Repeat("1", 1000)},
	} {
		require.ErrorContains(t, dataversion.Check(bad), want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"v3.6.16", "18.2.7+ds-1+deb13u1", "1:2.0.21-1", "v0.0.0-20251021213802-b1f3c43f8437", "", "(devel)"} {
		f.Add(s, "2.0")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := dataversion.Parse(a)
		if err != nil {
			require.Zero(t, x.Major)
			return
		}
		require.Zero(t, dataversion.Compare(x, x))
		require.GreaterOrEqual(t, min(x.Major, x.Minor, x.Patch), 0)
		if y, err := dataversion.Parse(b); err == nil {
			require.Equal(t, -dataversion.Compare(x, y), dataversion.Compare(y, x))
		}
		w := rows()[0].Back(a, b)
		require.NotEmpty(t, w.Why)
	})
}

func FuzzReadVersions(f *testing.F) {
	f.Add(manifest)
	f.Add(`{"payloads":[{"artifact":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := dataversion.ReadVersions(strings.NewReader(text), rows())
		if err != nil {
			return
		}
		require.NoError(t, dataversion.Check(got))
		require.False(t, slices.Contains(slices.Collect(maps.Keys(got)), "names"))
	})
}
