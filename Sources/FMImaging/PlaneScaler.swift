import CZimg
import Glibc

/// Resizes one plane with zimg's Lanczos filter (3 lobes, widened when scaling down).
enum PlaneScaler {
  /// The part of a plane that is resized, in samples; may begin and end between samples and reach
  /// beyond the plane, where the edge is continued.
  struct Region: Equatable {
    var x: Double
    var y: Double
    var width: Double
    var height: Double
  }

  /// `plane` itself, cropped, when the region covers exactly the samples that are asked for.
  static func scale(_ plane: Plane, region: Region, width: Int, height: Int)
    throws(ImageProblem) -> Plane
  {
    if region.x == 0, region.y == 0, region.width == Double(width),
      region.height == Double(height), width <= plane.width, height <= plane.height
    {
      plane.crop(width: width, height: height)
      return plane
    }
    let output = try Plane(width: width, height: height)

    var source = zimg_image_format()
    var target = zimg_image_format()
    var options = zimg_graph_builder_params()
    zimg_image_format_default(&source, fm_zimg_api_version)
    zimg_image_format_default(&target, fm_zimg_api_version)
    zimg_graph_builder_params_default(&options, fm_zimg_api_version)
    source.width = UInt32(plane.width)
    source.height = UInt32(plane.height)
    source.pixel_type = ZIMG_PIXEL_BYTE
    source.pixel_range = ZIMG_RANGE_FULL
    source.active_region.left = region.x
    source.active_region.top = region.y
    source.active_region.width = region.width
    source.active_region.height = region.height
    target.width = UInt32(width)
    target.height = UInt32(height)
    target.pixel_type = ZIMG_PIXEL_BYTE
    target.pixel_range = ZIMG_RANGE_FULL
    options.resample_filter = ZIMG_RESIZE_LANCZOS
    options.filter_param_a = 3

    guard let graph = zimg_filter_graph_build(&source, &target, &options) else {
      throw failure(plane, width, height)
    }
    defer { zimg_filter_graph_free(graph) }
    var scratchSize = 0
    guard zimg_filter_graph_get_tmp_size(graph, &scratchSize) == ZIMG_ERROR_SUCCESS else {
      throw failure(plane, width, height)
    }
    guard let scratch = aligned_alloc(64, max(64, (scratchSize + 63) & ~63)) else {
      throw .outOfMemory(plane.width, plane.height)
    }
    defer { free(scratch) }

    var input = fm_zimg_input(plane.base, plane.stride)
    var result = fm_zimg_output(output.base, output.stride)
    guard
      zimg_filter_graph_process(graph, &input, &result, scratch, nil, nil, nil, nil)
        == ZIMG_ERROR_SUCCESS
    else { throw failure(plane, width, height) }
    return output
  }

  private static func failure(_ plane: Plane, _ width: Int, _ height: Int) -> ImageProblem {
    var text = [CChar](repeating: 0, count: 256)
    let code = zimg_get_last_error(&text, text.count)
    zimg_clear_last_error()
    if code == ZIMG_ERROR_OUT_OF_MEMORY { return .outOfMemory(plane.width, plane.height) }
    let message = String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    return ImageProblem(
      .unsupportedFormat,
      "cannot be scaled from \(plane.width) x \(plane.height) to \(width) x \(height) (\(message)); "
        + "scale the picture down beforehand")
  }
}
