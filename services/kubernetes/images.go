package kubernetes

import (
	"slices"
	"strings"

	"spore/cluster/spec"
)

// IsImageArchive tells an OCI archive from a reference in images of kubernetes.yaml.
func IsImageArchive(image string) bool { return strings.HasSuffix(image, ".tar") }

// archives are the files of the folder that kubernetes.yaml names.
func archives(s spec.Services) []string {
	return slices.DeleteFunc(slices.Clone(Of(s).Images), func(image string) bool { return !IsImageArchive(image) })
}
