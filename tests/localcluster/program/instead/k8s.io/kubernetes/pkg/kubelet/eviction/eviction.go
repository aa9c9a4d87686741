// Package eviction has what the garbage collector of pods uses of the kubelet's package of this name, which needs 137
// more packages.
package eviction

import v1 "k8s.io/api/core/v1"

// PodIsEvicted returns whether a kubelet evicted the pod.
func PodIsEvicted(status v1.PodStatus) bool {
	return status.Phase == v1.PodFailed && status.Reason == "Evicted"
}
