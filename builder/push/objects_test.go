package push

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/update"
)

func TestWhichObjectsAPushWouldChange(t *testing.T) {
	require.Empty(t, ObjectChanges(nil, nil, nil, false))
	same := map[string]string{"ConfigMap web/a": "1", "Namespace web": "2"}
	require.Empty(t, ObjectChanges(same, same, nil, false))
	require.Equal(t, []string{
		"would apply ConfigMap web/a, which is another", "would apply ConfigMap web/b, which is new",
	}, ObjectChanges(same, map[string]string{"ConfigMap web/a": "2", "ConfigMap web/b": "1", "Namespace web": "2"}, nil, false))
	require.Equal(t, []string{"would remove Namespace web"}, ObjectChanges(map[string]string{"Namespace web": "2"}, nil, nil, false))
	many := map[string]string{}
	for i := range 25 {
		many[fmt.Sprintf("ConfigMap web/%02d", i)] = "1"
	}
	lines := ObjectChanges(many, nil, nil, false)
	require.Len(t, lines, 21)
	require.Equal(t, "would apply, remove or leave 5 objects more", lines[20])
}

func TestObjectsThatStayAreNotNamedAsRemoved(t *testing.T) {
	const pumps = "CustomResourceDefinition.apiextensions.k8s.io pumps.plant.example"
	never, found := update.Kept{Why: "says spore/prune: never"}, update.Kept{Why: "was there before the folder had it"}
	for name, tc := range map[string]struct {
		before, after []string
		kept          map[string]update.Kept
		want          []string
	}{
		"one that says so": {[]string{"ConfigMap web/a"}, nil, map[string]update.Kept{"ConfigMap web/a": never}, []string{
			"would leave ConfigMap web/a as it is, which says spore/prune: never",
		}},
		"one that was there before": {[]string{"ConfigMap web/a", "ConfigMap web/b"}, nil, map[string]update.Kept{"ConfigMap web/a": found}, []string{
			"would leave ConfigMap web/a as it is, which was there before the folder had it", "would remove ConfigMap web/b",
		}},
		"one that the folder has": {[]string{"ConfigMap web/a"}, []string{"ConfigMap web/a"}, map[string]update.Kept{"ConfigMap web/a": never}, nil},
		"a namespace with what the folder has": {[]string{"Namespace web", "ConfigMap web/a"}, []string{"ConfigMap web/a"}, nil, []string{
			"would leave Namespace web as it is, since ConfigMap web/a lies in it, which manifests/ has",
		}},
		"a namespace with what stays": {[]string{"Namespace web"}, nil, map[string]update.Kept{"Secret web/a": found}, []string{
			"would leave Namespace web as it is, since Secret web/a lies in it, which was there before the folder had it",
		}},
		"a namespace with what goes": {[]string{"Namespace web", "ConfigMap web/a"}, []string{"ConfigMap other/a"}, map[string]update.Kept{"ConfigMap other/b": never, "Web web": never}, []string{
			"would remove ConfigMap web/a", "would apply ConfigMap other/a, which is new", "would remove Namespace web",
		}},
		"a definition with objects of the folder": {[]string{pumps}, []string{"Pump.plant.example web/north"}, map[string]update.Kept{pumps: {Defines: "Pump.plant.example"}}, []string{
			"would leave " + pumps + " as it is, since Pump.plant.example web/north is of it, which manifests/ has",
			"would apply Pump.plant.example web/north, which is new",
		}},
		"a definition of which nothing stays": {[]string{pumps}, []string{"Valve.plant.example web/x"}, map[string]update.Kept{pumps: {Defines: "Pump.plant.example"}}, []string{
			"would remove " + pumps, "would apply Valve.plant.example web/x, which is new",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sums := func(names []string) map[string]string {
				out := map[string]string{}
				for _, n := range names {
					out[n] = "1"
				}
				return out
			}
			require.ElementsMatch(t, tc.want, ObjectChanges(sums(tc.before), sums(tc.after), tc.kept, false))
		})
	}
}

func TestWhatStaysBesideThoseThatAreToldIsNotKnown(t *testing.T) {
	before := map[string]string{"ConfigMap web/a": "1", "ConfigMap web/b": "1", "Namespace web": "1"}
	after := map[string]string{"ConfigMap web/c": "1"}
	kept := map[string]update.Kept{"ConfigMap web/a": {Why: "says spore/prune: never"}}
	require.Equal(t, []string{
		"would leave ConfigMap web/a as it is, which says spore/prune: never",
		"would remove ConfigMap web/b, or leave it: which is not known, since more objects stay than masters tell of",
		"would apply ConfigMap web/c, which is new",
		"would leave Namespace web as it is, since ConfigMap web/c lies in it, which manifests/ has",
	}, ObjectChanges(before, after, kept, true))
}
