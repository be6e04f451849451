package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/rootfs"
	"spore/builder/tree"
	"spore/services/kubernetes"
)

// Where a root carries container images, and the list of them that spore-agent reads.
const (
	imagesDir   = "/usr/share/spore/images"
	imagesIndex = imagesDir + "/images.json"
)

// kubernetesImages is the program that every node with pods has: it brings the images of the root to containerd.
const kubernetesImages = "kubernetes-images"

var (
	// A pod names its images in YAML, in a template of it, or in JSON; containerd its own in TOML.
	imageYAML = regexp.MustCompile(`^\s*(?:-\s+)?image:\s*["']?([^\s"'#]+)`)
	imageJSON = regexp.MustCompile(`"image"\s*:\s*"([^"]+)"`)
	imageTOML = regexp.MustCompile(`^\s*sandbox(?:_image)?\s*=\s*"([^"]+)"`)
	always    = regexp.MustCompile(`imagePullPolicy"?\s*:\s*["']?Always`)
)

// manifests are the endings of files that can name a container image.
var manifests = []string{".yaml", ".yml", ".json", ".toml", ".tmpl", ".manifest"}

// containerImages compares what is named with what the root carries.
func containerImages(i *rootfs.Image) (Check, error) {
	c := Check{Name: "every container image that is named is in the root"}
	carried, err := carriedImages(i, &c)
	if err != nil {
		return c, err
	}
	if slices.Contains(i.Manifest.Programs, kubernetesImages) {
		c.evidence("%s, which holds each pod's namespaces", kubernetes.PauseImage)
		if !carried[kubernetes.PauseImage] {
			c.Findings = append(c.Findings, Finding{Path: imagesIndex, Text: kubernetes.PauseImage, Why: "kubelet needs it for each pod, and the root does not carry it"})
		}
	}
	files := 0
	for _, part := range []struct {
		name string
		fs   *rootfs.Filesystem
	}{{"", &i.Root}, {"cluster part: ", &i.Cluster}} {
		for n := range part.fs.Entries {
			e := &part.fs.Entries[n]
			if e.Type != tree.Regular || !slices.Contains(manifests, path.Ext(e.Path)) {
				continue
			}
			files++
			if e.Size > maxText {
				c.Findings = append(c.Findings, Finding{Path: part.name + e.Path, Why: "too large to look at"})
				continue
			}
			err := lines(part.fs.Image, e, func(n int, text string) {
				if why := wrongImage(text, carried); why != "" {
					c.Findings = append(c.Findings, Finding{part.name + e.Path, n, strings.TrimSpace(text), why})
				}
			})
			if err != nil {
				return c, err
			}
		}
	}
	c.evidence("%d files that could name one (%s)", files, strings.Join(manifests, " "))
	return c, nil
}

// wrongImage tells what is wrong with the images that a line names, or returns "".
func wrongImage(text string, carried map[string]bool) string {
	if always.MatchString(text) {
		return "the image is pulled at each start; use IfNotPresent or Never"
	}
	var names []string
	for _, re := range []*regexp.Regexp{imageYAML, imageJSON, imageTOML} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	}
	for _, name := range names {
		if !carried[name] {
			return "the root does not carry the image " + name
		}
	}
	return ""
}

// carriedImages reads the list of images in the root, by name, and checks that their archives are there.
func carriedImages(i *rootfs.Image, c *Check) (map[string]bool, error) {
	out := map[string]bool{}
	data, err := i.Root.ReadFile(imagesIndex, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		c.evidence("the root carries none")
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Images []struct {
			File   string   `json:"file"`
			Names  []string `json:"names"`
			Digest string   `json:"digest"`
		} `json:"images"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", imagesIndex, err)
	}
	for _, image := range list.Images {
		archive := path.Join(imagesDir, image.File)
		if e := i.Root.Lstat(archive); e == nil || e.Type != tree.Regular || e.Size == 0 {
			c.Findings = append(c.Findings, Finding{Path: archive, Text: strings.Join(image.Names, " "), Why: "the list of images has it, and it is not there"})
			continue
		}
		for _, name := range image.Names {
			out[name] = true
			c.evidence("%s is in %s, %s", name, archive, image.Digest)
		}
	}
	return out, nil
}
