package customize_test

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/customize"
	"spore/builder/media"
	"spore/builder/push"
	"spore/builder/secureboot"
	"spore/cluster"
	"spore/pki"
)

func TestAPushSignsOnlyWhatTheCertificateSigned(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	keys, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: now})
	require.NoError(t, err)
	ours := media.Keys{Boot: keys.DB}
	for name, tc := range map[string]struct {
		image, push media.Keys
		trust       bool
		err         string
	}{
		"signed by us":                   {ours, ours, false, ""},
		"not signed":                     {media.Keys{}, ours, false, "it is not signed"},
		"not signed, and trusted":        {media.Keys{}, ours, true, ""},
		"not signed, and nothing is":     {media.Keys{}, media.Keys{}, false, ""},
		"signed by another":              {media.Keys{Boot: keys.KEK}, ours, false, `it is signed by "CN=plant Secure Boot Key Exchange Key"`},
		"signed by another, and trusted": {media.Keys{Boot: keys.KEK}, ours, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			image, config := customize.Built(t, tc.image)
			facts, nodes := cluster.Facts(config)
			tree := pki.New(&facts)
			_, err := tree.Update(&facts, nodes, pki.Options{Now: now, Random: rand.Reader})
			require.NoError(t, err)
			config.Public = cluster.Public{SigningKeys: []string{"AAAA"}}
			u, err := push.Make(push.Options{
				Image: image, Config: config, Folder: os.DirFS("../../examples/edge"), Keys: tc.push, TrustUnsigned: tc.trust, Tree: tree, Now: now,
			})
			if tc.err != "" {
				require.ErrorContains(t, err, "the UKI of "+image+" is not signed by the certificate that is given")
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, u.Close())
		})
	}
}
