package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Match names one kind of card by its PCI identifiers, four lower-case hexadecimal digits each.
type Match struct {
	Vendor string `json:"vendor"`
	Device string `json:"device"`
}

// Card is one PCI device of a kind that was asked for.
type Card struct {
	Address string
	// NUMANode is -1 where the machine does not say.
	NUMANode int64
}

// FirstDirectory returns the first of the directories that is there.
func FirstDirectory(directories []string) (string, error) {
	for _, directory := range directories {
		if info, err := os.Stat(directory); err == nil && info.IsDir() {
			return directory, nil
		}
	}
	return "", fmt.Errorf("none of %s is a directory", strings.Join(directories, ", "))
}

// Find returns the cards under root that match, ordered by address.
//
// root has the form of /sys/bus/pci/devices: a directory for each address with files vendor, device and numa_node.
// A card that goes away while it is read counts as gone; a root that is missing is an error.
func Find(root string, matches []Match) ([]Card, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var cards []Card
	for _, entry := range entries {
		directory := filepath.Join(root, entry.Name())
		vendor, err := readIdentifier(filepath.Join(directory, "vendor"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		device, err := readIdentifier(filepath.Join(directory, "device"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if slices.Contains(matches, Match{Vendor: vendor, Device: device}) {
			cards = append(cards, Card{Address: entry.Name(), NUMANode: readNUMANode(directory)})
		}
	}
	return cards, nil
}

// readIdentifier reads a file like /sys/bus/pci/devices/<address>/vendor: "0x10de".
func readIdentifier(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(string(content))), "0x")
	if _, err := strconv.ParseUint(text, 16, 16); err != nil {
		return "", fmt.Errorf("%s: %q is no PCI identifier", file, text)
	}
	return text, nil
}

func readNUMANode(directory string) int64 {
	content, err := os.ReadFile(filepath.Join(directory, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return -1
	}
	return node
}

// Merge tells the kubelet of the cards that are there as healthy, and of those seen earlier as unhealthy.
//
// A card that vanished stays in the list: the kubelet then takes it out of the node's allocatable cards and keeps
// it in the capacity, so that an operator sees the difference.
func Merge(known []*deviceplugin.Device, cards []Card) []*deviceplugin.Device {
	merged := make([]*deviceplugin.Device, 0, len(cards))
	for _, card := range cards {
		device := &deviceplugin.Device{ID: card.Address, Health: deviceplugin.Healthy}
		if card.NUMANode >= 0 {
			device.Topology = &deviceplugin.TopologyInfo{Nodes: []*deviceplugin.NUMANode{{ID: card.NUMANode}}}
		}
		merged = append(merged, device)
	}
	for _, old := range known {
		if !slices.ContainsFunc(cards, func(card Card) bool { return card.Address == old.ID }) {
			merged = append(merged, &deviceplugin.Device{
				ID: old.ID, Health: deviceplugin.Unhealthy, Topology: old.Topology,
			})
		}
	}
	slices.SortFunc(merged, func(a, b *deviceplugin.Device) int { return strings.Compare(a.ID, b.ID) })
	return merged
}
