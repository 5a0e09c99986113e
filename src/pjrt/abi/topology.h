#pragma once
// Hardware that may not be there.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

struct SerializedTopology;

struct TopologyDescriptionCreateArgs {
  Head head;
  const char* topology_name;
  size_t topology_name_size;
  const NamedValue* create_options;
  size_t num_options;
  TopologyDescription* topology; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionCreateArgs, "PJRT_TopologyDescription_Create", topology);

struct TopologyDescriptionDestroyArgs {
  Head head;
  TopologyDescription* topology;
};
DLLM_PJRT_STRUCT(TopologyDescriptionDestroyArgs, "PJRT_TopologyDescription_Destroy", topology);

struct TopologyDescriptionPlatformNameArgs {
  Head head;
  const TopologyDescription* topology;
  const char* platform_name; // out
  size_t platform_name_size; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionPlatformNameArgs, "PJRT_TopologyDescription_PlatformName",
                 platform_name_size);

struct TopologyDescriptionPlatformVersionArgs {
  Head head;
  TopologyDescription* topology;
  const char* platform_version; // out
  size_t platform_version_size; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionPlatformVersionArgs, "PJRT_TopologyDescription_PlatformVersion",
                 platform_version_size);

struct TopologyDescriptionGetDeviceDescriptionsArgs {
  Head head;
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions; // out
  size_t num_descriptions;                // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionGetDeviceDescriptionsArgs,
                 "PJRT_TopologyDescription_GetDeviceDescriptions", num_descriptions);

struct TopologyDescriptionSerializeArgs {
  Head head;
  TopologyDescription* topology;
  const char* serialized_bytes;                                                 // out
  size_t serialized_bytes_size;                                                 // out
  SerializedTopology* serialized_topology;                                      // out
  void (*serialized_topology_deleter)(SerializedTopology* serialized_topology); // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionSerializeArgs, "PJRT_TopologyDescription_Serialize",
                 serialized_topology_deleter);

struct TopologyDescriptionDeserializeArgs {
  Head head;
  const char* serialized_topology;
  size_t serialized_topology_size;
  TopologyDescription* topology; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionDeserializeArgs, "PJRT_TopologyDescription_Deserialize",
                 topology);

struct TopologyDescriptionAttributesArgs {
  Head head;
  TopologyDescription* topology;
  const NamedValue* attributes; // out
  size_t num_attributes;        // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionAttributesArgs, "PJRT_TopologyDescription_Attributes",
                 num_attributes);

struct TopologyDescriptionFingerprintArgs {
  Head head;
  const TopologyDescription* topology;
  uint64_t fingerprint; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionFingerprintArgs, "PJRT_TopologyDescription_Fingerprint",
                 fingerprint);

} // namespace dllm::pjrt::abi
