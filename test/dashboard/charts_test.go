//go:build e2e

package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/browser"
)

// A screen becomes dark in the evening.
func TestChartsFollowTheColoursOfTheScreen(t *testing.T) {
	t.Parallel()
	p := served(t, serving())
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Look(390, "light")
	b.Open(p.origin + "/charts?node=edge-01")
	for _, c := range []struct{ scheme, line, grid string }{{"dark", "134,197,238", "56,63,67"}, {"light", "11,90,134", "213,217,219"}} {
		b.Look(390, c.scheme)
		for _, color := range []string{c.line, c.grid} {
			b.Sees(browser.Patience, `[...document.querySelectorAll("canvas")].some((c) => {
				const points = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
				for (let i = 0; i < points.length; i += 4) if (points.slice(i, i + 3).join() === "`+color+`" && points[i + 3] === 255) return true; })`, c.scheme)
		}
		b.Sees(browser.Patience, `getComputedStyle(document.querySelector(".swatch")).borderTopColor.replaceAll(" ", "") === "rgb(`+c.line+`)"`, c.scheme)
		require.Empty(t, broken(b, ".values td, .values thead th"))
	}
	require.LessOrEqual(t, browser.Eval[int](b, "document.documentElement.scrollWidth"), 390)
}
